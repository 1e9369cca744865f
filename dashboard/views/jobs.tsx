// Jobs by type and state, and what can be mended of them.
import type { JobRow, JobsPage, JobState, JobTypeRow } from "../../src/internal/dashboard/wire.ts"
import { pathOf, usePolled } from "../api.ts"
import { ask } from "../asking.tsx"
import { exact } from "../format.ts"
import { Badge, Button, Card, Page, Pager, Stale, Stored, Table, Waiting, When } from "../parts.tsx"
import { type Route, to } from "../route.ts"
import { JobTypes, STATES, TONES } from "./jobTypes.tsx"

export const Jobs = ({ canMend, route: { params } }: { readonly route: Route; readonly canMend: boolean }) => {
  const { again, data, failed } = usePolled<JobsPage>(pathOf("jobs", params))
  const type = data?.types.find(({ type }) => type === params["type"])
  return (
    <Page
      title="Jobs"
      sub="Background work, by type and state"
      actions={canMend && type !== undefined ? <Pausing type={type} again={again} /> : undefined}
    >
      {data === undefined ? <Waiting failed={failed} /> : (
        <>
          <Stale failed={failed} />
          <Card title="Types">
            <JobTypes types={data.types} />
          </Card>
          {params["type"] === undefined
            ? null
            : <OfType data={data} type={type} params={params} canMend={canMend} again={again} />}
        </>
      )}
    </Page>
  )
}

const Pausing = ({ again, type }: { readonly type: JobTypeRow; readonly again: () => void }) =>
  type.isPaused
    ? (
      <Button
        tone="main"
        onPress={() =>
          ask({
            title: "Resume this type?",
            text: (
              <p>
                Jobs of <code>{type.type}</code> are taken again, in every process.
              </p>
            ),
            yes: "Resume",
            body: { operation: "resume", type: type.type },
            done: again
          })}
      >
        Resume {type.type} …
      </Button>
    )
    : (
      <Button
        onPress={() =>
          ask({
            title: "Pause this type?",
            text: (
              <p>
                No job of <code>{type.type}</code>{" "}
                is taken any more, in any process, until it is resumed. Those that run go on.
              </p>
            ),
            yes: "Pause",
            body: { operation: "pause", type: type.type },
            done: again
          })}
      >
        Pause {type.type} …
      </Button>
    )

const OfType = ({ again, canMend, data, params, type }: {
  readonly data: JobsPage
  readonly type: JobTypeRow | undefined
  readonly params: Readonly<Record<string, string>>
  readonly canMend: boolean
  readonly again: () => void
}) => {
  const { after, ...search } = params
  const state = STATES.find((one) => one === search["state"])
  return (
    <Card
      title={type === undefined ? "Jobs" : `Jobs of ${type.type}`}
      actions={canMend && type !== undefined && state !== undefined && type.counts[state] > 0
        ? <MendingAll type={type} state={state} again={again} />
        : undefined}
    >
      <nav class="tabs" aria-label="State">
        {[undefined, ...STATES].map((state) => (
          <a
            key={state ?? "all"}
            href={to("jobs", { type: search["type"], state })}
            aria-current={search["state"] === state ? "page" : undefined}
          >
            {state ?? "all"}
          </a>
        ))}
      </nav>
      <Table
        label="Jobs"
        empty="There is none."
        columns={[
          { title: "Job" },
          { title: "State" },
          { title: "Due", end: true },
          { title: "Ended", end: true },
          { title: "Attempts", end: true },
          { title: "Priority", end: true },
          ...(canMend ? [{ title: "Mend", silent: true, end: true }] : [])
        ]}
        rows={data.jobs.map((job) => ({
          key: job.id,
          cells: [
            <Details key="job" job={job} />,
            <Badge key="state" tone={TONES[job.state]}>{job.state}</Badge>,
            <When key="due" at={job.scheduledAt} now={data.now} />,
            <When key="ended" at={job.endedAt} now={data.now} />,
            exact(job.attempts),
            exact(job.priority),
            ...(canMend ? [<Mending key="mend" job={job} type={search["type"]!} again={again} />] : [])
          ]
        }))}
      />
      <Pager
        first={after === undefined ? undefined : to("jobs", search)}
        next={data.next === undefined ? undefined : to("jobs", { ...search, after: data.next })}
      />
    </Card>
  )
}

/** What is done to all jobs of a state. */
const MendingAll = ({ again, state, type }: {
  readonly type: JobTypeRow
  readonly state: JobState
  readonly again: () => void
}) => {
  const many = `${exact(type.counts[state])} ${state}`
  const askAll = (operation: "requeue-job" | "remove-job", title: string, yes: string, text: string) =>
    ask({
      title,
      text: (
        <p>
          All jobs of <code>{type.type}</code> that are {state}, {exact(type.counts[state])} now, {text}
        </p>
      ),
      yes,
      danger: operation === "remove-job",
      body: { operation, type: type.type, state },
      done: again
    })
  return (
    <>
      {state === "dead" || state === "finished"
        ? (
          <Button
            small
            onPress={() => askAll("requeue-job", `Requeue all ${state} jobs?`, "Requeue all", "are pending again.")}
          >
            Requeue {many} …
          </Button>
        )
        : null}
      <Button
        small
        tone="danger"
        onPress={() => askAll("remove-job", `Remove all ${state} jobs?`, "Remove all", "are deleted for good.")}
      >
        Remove {many} …
      </Button>
    </>
  )
}

const Details = ({ job }: { readonly job: JobRow }) => (
  <details>
    <summary>
      <span class="mono">{job.id}</span>
    </summary>
    <Stored label={`Data of ${job.id}`} text={job.data} />
    {job.error === "" ? null : <Stored label={`Error of ${job.id}`} text={job.error} />}
    {job.waitsFor === 0 ? null : <p class="muted">It waits for {exact(job.waitsFor)} other jobs.</p>}
  </details>
)

const Mending = ({ again, job, type }: { readonly job: JobRow; readonly type: string; readonly again: () => void }) => (
  <span class="actions end">
    {job.state === "dead" || job.state === "finished"
      ? (
        <Button
          small
          label={`Requeue ${job.id}`}
          onPress={() =>
            ask({
              title: "Requeue this job?",
              text: (
                <p>
                  <code>{job.id}</code> is pending again, at once.
                </p>
              ),
              yes: "Requeue",
              body: { operation: "requeue-job", type, id: job.id },
              done: again
            })}
        >
          Requeue …
        </Button>
      )
      : null}
    <Button
      small
      tone="danger"
      label={`Remove ${job.id}`}
      onPress={() =>
        ask({
          title: "Remove this job?",
          text: (
            <p>
              <code>{job.id}</code> is deleted for good.{job.state === "running" ? " Its handler is interrupted." : ""}
            </p>
          ),
          yes: "Remove",
          danger: true,
          body: { operation: "remove-job", type, id: job.id },
          done: again
        })}
    >
      Remove …
    </Button>
  </span>
)
