// One server: its head, state, lock, timers, keys, queue and dead letters, and what can be mended.
import type { ComponentChildren } from "preact"
import { useRef, useState } from "preact/hooks"
import type { DeadLetter, Message, ServerList, ServerPage } from "../../src/internal/dashboard/wire.ts"
import { pathOf, usePolled } from "../api.ts"
import { ask } from "../asking.tsx"
import { exact, plural } from "../format.ts"
import { Age, Badge, Button, Card, Page, Pager, Stale, Stored, Table, Waiting, When } from "../parts.tsx"
import { type Route, to } from "../route.ts"
import { Problems } from "./serverTable.tsx"

interface Shown {
  readonly data: ServerPage
  readonly params: Route["params"]
  readonly canMend: boolean
  readonly again: () => void
}

export const Server = ({ canMend, route }: { readonly route: Route; readonly canMend: boolean }) => {
  const { params } = route
  const { again, data: answer, failed } = usePolled<ServerPage>(pathOf("server", params))
  // another page of one of its lists: what was seen stays until it is there
  const last = useRef<{ readonly tuid: string | undefined; readonly data: ServerPage | undefined } | undefined>(
    undefined
  )
  if (answer !== undefined || last.current?.tuid !== params["tuid"] || failed !== undefined) {
    last.current = { tuid: params["tuid"], data: answer }
  }
  const data = answer ?? last.current?.data
  if (data === undefined) {
    return (
      <Page title="Server">
        <Waiting failed={failed} />
      </Page>
    )
  }
  const shown = { data, params, canMend, again }
  return (
    <Page
      title={data.server.tuid}
      mono
      sub={
        <>
          {data.server.definition === "" ? "of an unknown definition" : data.server.definition}
          {data.hosted === undefined ? "" : data.hosted ? " · hosted" : " · started by programs"} ·{" "}
          <Problems row={data.server} />
        </>
      }
      actions={canMend ? <Actions {...shown} /> : undefined}
    >
      <Stale failed={failed} />
      {data.hint === undefined ? null : <p class="hint" role="note">{data.hint}</p>}
      {data.problems.map((problem) => <p key={problem} class="problem">It cannot be read whole: {problem}</p>)}
      <Facts {...shown} />
      <div class="columns">
        <State data={data} />
        <Timers {...shown} />
      </div>
      <Queue {...shown} />
      <DeadLetters {...shown} />
    </Page>
  )
}

const Actions = ({ again, data }: Shown) => {
  const { server } = data
  const tuid = server.tuid
  return (
    <>
      {data.casts.length === 0 ? null : <Button onPress={() => askCast(data, again)}>Cast …</Button>}
      {data.lock === undefined ? null : (
        <Button
          onPress={() =>
            ask({
              title: "Unlock this server?",
              text: (
                <>
                  <p>
                    The lock of <code>{server.tuid}</code>{" "}
                    is broken. Its message goes back to the queue, with one more attempt.
                  </p>
                  <p>The handler that holds it, if it still runs, is ended and writes nothing.</p>
                </>
              ),
              yes: "Unlock",
              body: { operation: "unlock", tuid },
              done: again
            })}
        >
          Unlock …
        </Button>
      )}
      <Button
        tone="danger"
        onPress={() =>
          ask({
            title: "Kill this server?",
            text: (
              <>
                <p>
                  Nothing is left of <code>{server.tuid}</code>: its state, {plural(server.waiting, "message")}{" "}
                  that wait, {plural(server.dead, "dead letter")} and {plural(server.timers, "timer")}{" "}
                  are deleted for good.
                </p>
                <p>Callers that wait are told that it was killed.</p>
              </>
            ),
            yes: "Kill it",
            danger: true,
            body: { operation: "kill", tuid },
            done: again
          })}
      >
        Kill …
      </Button>
    </>
  )
}

const askCast = (data: ServerPage, again: () => void) =>
  ask({
    title: "Cast a message",
    text: (
      <p>
        To <code>{data.server.tuid}</code>. It is handled like any other message.
      </p>
    ),
    yes: "Cast",
    body: { operation: "cast", tuid: data.server.tuid },
    form: (set) => <CastForm tags={data.casts} set={set} />,
    done: again
  })

const CastForm = ({ set, tags }: {
  readonly tags: ReadonlyArray<string>
  readonly set: (fields: object | undefined) => void
}) => {
  const [tag, setTag] = useState(tags[0]!)
  const [text, setText] = useState("")
  const [problem, setProblem] = useState("")
  const changed = (tag: string, text: string) => {
    setTag(tag)
    setText(text)
    try {
      set({ tag, payload: text.trim() === "" ? undefined : JSON.parse(text) })
      setProblem("")
    } catch (cause) {
      set(undefined)
      setProblem(cause instanceof Error ? cause.message : String(cause))
    }
  }
  return (
    <div class="fields">
      <label>
        <span>Message</span>
        <select data-first="" value={tag} onChange={(event) => changed(event.currentTarget.value, text)}>
          {tags.map((name) => <option key={name}>{name}</option>)}
        </select>
      </label>
      <label>
        <span>Payload, as JSON</span>
        <textarea
          class="mono"
          rows={6}
          spellcheck={false}
          value={text}
          aria-invalid={problem !== ""}
          aria-describedby="payload-problem"
          onInput={(event) => changed(tag, event.currentTarget.value)}
        />
      </label>
      <p id="payload-problem" class="field-problem">{problem}</p>
    </div>
  )
}

const Fact = (props: { readonly name: string; readonly children?: ComponentChildren }) => (
  <div class="fact">
    <dt>{props.name}</dt>
    <dd>{props.children}</dd>
  </div>
)

const Facts = ({ data }: Shown) => (
  <section class="card" aria-label="At a glance">
    <dl class="facts">
      <Fact name="Messages waiting">{exact(data.server.waiting)}</Fact>
      <Fact name="Oldest message">
        <Age at={data.server.oldestAt} now={data.now} />
      </Fact>
      <Fact name="Attempts of the first">{exact(data.server.attempts)}</Fact>
      <Fact name="Lock">
        {data.lock === undefined
          ? "free"
          : (
            <>
              <Badge tone="busy">held</Badge> by {data.lock.kind} {data.lock.tag}, for{" "}
              <Age at={data.lock.at} now={data.now} />
            </>
          )}
      </Fact>
      <Fact name="Dead letters">{exact(data.server.dead)}</Fact>
      <Fact name="Timers">{exact(data.server.timers)}</Fact>
      <Fact name="Keys of messages">{exact(data.keys)}</Fact>
      <Fact name="Calls that wait">{exact(data.waitingCalls)}</Fact>
      {data.stateVersion === undefined ? null : <Fact name="Version of the state">{exact(data.stateVersion)}</Fact>}
      {data.wakeAt === undefined ? null : (
        <Fact name="Wakes">
          <When at={data.wakeAt} now={data.now} />
        </Fact>
      )}
    </dl>
  </section>
)

const State = ({ data }: { readonly data: ServerPage }) => (
  <Card title="State">
    {data.state === undefined ? <p class="empty">It has none.</p> : <Stored label="State" text={data.state} />}
  </Card>
)

/** The pages of one of its lists, where there are several. */
const Pages = ({ data, list, of, params }: Pick<Shown, "data" | "params"> & {
  readonly list: ServerList
  readonly of: string
}) => {
  const next = data.next[list]
  const isFirst = params[list] === undefined
  if (isFirst && next === undefined) return null
  return (
    <Pager
      of={of}
      first={isFirst ? undefined : to("server", { ...params, [list]: undefined })}
      next={next === undefined ? undefined : to("server", { ...params, [list]: next })}
    />
  )
}

/** What an empty page of a list says. */
const emptyText = (params: Route["params"], list: ServerList, none: string): string =>
  params[list] === undefined ? none : "None on this page."

const Timers = ({ data, params }: Shown) => (
  <Card
    title="Timers"
    at={params["timers"] ?? ""}
    note={data.server.timers === 0 ? undefined : exact(data.server.timers)}
  >
    <Table
      label="Timers"
      empty={emptyText(params, "timers", "It has none.")}
      columns={[{ title: "Timer" }, { title: "Message" }, { title: "Comes" }, { title: "Again" }]}
      rows={data.timers.map((timer) => ({
        key: timer.id ?? String(timer.at),
        cells: [
          <span key="id" class="mono">{timer.id ?? "unreadable"}</span>,
          timer.tag ?? "",
          <When key="at" at={timer.at} now={data.now} />,
          timer.again
        ]
      }))}
    />
    <Pages data={data} params={params} list="timers" of="timers" />
  </Card>
)

const Payload = ({ message }: { readonly message: Message }) => (
  <details>
    <summary>
      <span class="mono">{message.tag ?? "unreadable"}</span>
    </summary>
    <Stored label={`Payload of ${message.tag ?? "an unreadable message"}`} text={message.payload} />
  </details>
)

const Queue = ({ data, params }: Shown) => (
  <Card
    title="Queue"
    at={params["queue"] ?? ""}
    note={data.server.waiting === 0 ? undefined : plural(data.server.waiting, "message")}
  >
    {data.lock?.message === undefined ? null : (
      <div class="locked">
        <Badge tone="busy">under the lock</Badge>
        <Payload message={data.lock.message} />
      </div>
    )}
    <Table
      label="Queue"
      empty={emptyText(params, "queue", "No message waits.")}
      columns={[{ title: "Message" }, { title: "Attempts", end: true }, { title: "Sent", end: true }]}
      rows={data.queue.map((message) => ({
        key: message.id,
        cells: [
          <Payload key="message" message={message} />,
          exact(message.attempts),
          <When key="at" at={message.at} now={data.now} />
        ]
      }))}
    />
    <Pages data={data} params={params} list="queue" of="queue" />
  </Card>
)

const DeadLetters = ({ again, canMend, data, params }: Shown) => {
  const { tuid } = data.server
  const askRequeue = (letter: DeadLetter) =>
    ask({
      title: "Requeue this dead letter?",
      text: (
        <p>
          <code>{letter.tag ?? "an unreadable message"}</code> goes to the end of the queue of{" "}
          <code>{tuid}</code>, with no attempts behind it.
        </p>
      ),
      yes: "Requeue",
      body: { operation: "requeue", tuid, id: letter.id },
      done: again
    })
  const askDiscard = (letter: DeadLetter) =>
    ask({
      title: "Discard this dead letter?",
      text: (
        <p>
          <code>{letter.tag ?? "an unreadable message"}</code> of <code>{tuid}</code> is deleted for good.
        </p>
      ),
      yes: "Discard",
      danger: true,
      body: { operation: "discard", tuid, id: letter.id },
      done: again
    })
  const askAll = (operation: "requeue" | "discard") =>
    ask({
      title: operation === "requeue" ? "Requeue all dead letters?" : "Discard all dead letters?",
      text: (
        <p>
          {plural(data.server.dead, "dead letter")} of <code>{tuid}</code> {operation === "requeue"
            ? "go to the end of its queue, with no attempts behind them."
            : "are deleted for good."}
        </p>
      ),
      yes: operation === "requeue" ? "Requeue all" : "Discard all",
      danger: operation === "discard",
      body: { operation, tuid },
      done: again
    })
  const all = (
    <>
      <Button small onPress={() => askAll("requeue")}>Requeue all …</Button>
      <Button small tone="danger" onPress={() => askAll("discard")}>Discard all …</Button>
    </>
  )
  return (
    <Card
      title="Dead letters"
      at={params["dead"] ?? ""}
      actions={canMend && data.server.dead > 1 ? all : undefined}
      note={data.server.dead === 0 ? undefined : exact(data.server.dead)}
    >
      {data.deadLetters.length === 0 ?
        <p class="empty">{emptyText(params, "dead", "There is none.")}</p> :
        (
          <ul class="letters">
            {data.deadLetters.map((letter) => (
              <li key={letter.id}>
                <div class="letter-head">
                  <Badge tone="bad">{letter.tag ?? "unreadable"}</Badge>
                  <span class="muted">
                    {plural(letter.attempts, "attempt")}, died <When at={letter.at} now={data.now} />
                  </span>
                  {canMend
                    ? (
                      <span class="actions">
                        <Button small label={`Requeue ${letter.tag ?? "message"}`} onPress={() => askRequeue(letter)}>
                          Requeue …
                        </Button>
                        <Button
                          small
                          tone="danger"
                          label={`Discard ${letter.tag ?? "message"}`}
                          onPress={() => askDiscard(letter)}
                        >
                          Discard …
                        </Button>
                      </span>
                    )
                    : null}
                </div>
                <Stored label={`Payload of ${letter.tag ?? "an unreadable message"}`} text={letter.payload} />
                <details>
                  <summary>Why it died</summary>
                  <Stored label="Cause" text={letter.cause} />
                </details>
              </li>
            ))}
          </ul>
        )}
      <Pages data={data} params={params} list="dead" of="dead letters" />
    </Card>
  )
}
