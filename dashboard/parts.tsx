// The parts that views are made of. Whatever is stored goes into them as text.
import type { ComponentChildren } from "preact"
import { useEffect, useId, useRef } from "preact/hooks"
import type { Failed } from "./api.ts"
import { age, exact, moment, number, relative } from "./format.ts"

export const Page = (props: {
  readonly title: string
  readonly mono?: boolean
  readonly sub?: ComponentChildren
  readonly actions?: ComponentChildren
  readonly children?: ComponentChildren
}) => {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    document.title = `${props.title} · effect-dgen`
  }, [props.title])
  return (
    <>
      <header class="page-head">
        <div class="page-title">
          <h1 ref={heading} tabIndex={-1} id="title" class={props.mono === true ? "mono" : ""}>{props.title}</h1>
          {props.sub === undefined ? null : <p class="muted">{props.sub}</p>}
        </div>
        {props.actions === undefined ? null : <div class="actions">{props.actions}</div>}
      </header>
      {props.children}
    </>
  )
}

export const Card = (props: {
  readonly title: string
  /** What it is of: when that changes, whoever changed it stands at its beginning. */
  readonly at?: string
  readonly note?: ComponentChildren
  readonly actions?: ComponentChildren
  readonly children?: ComponentChildren
}) => {
  const id = useId()
  const section = useRef<HTMLElement>(null)
  const seen = useRef(props.at)
  useEffect(() => {
    if (seen.current !== props.at) section.current?.focus()
    seen.current = props.at
  }, [props.at])
  return (
    <section ref={section} class="card" tabIndex={-1} aria-labelledby={id}>
      <div class="card-head">
        <h2 id={id}>{props.title}</h2>
        {props.note === undefined ? null : <span class="muted note">{props.note}</span>}
        {props.actions === undefined ? null : <div class="actions">{props.actions}</div>}
      </div>
      {props.children}
    </section>
  )
}

export type Tone = "plain" | "good" | "warn" | "bad" | "busy"

export const Badge = (props: { readonly tone: Tone; readonly children?: ComponentChildren }) => (
  <span class={`badge ${props.tone}`}>{props.children}</span>
)

export const Tile = (props: {
  readonly label: string
  readonly value: string
  readonly tone?: Tone
  readonly note?: string | undefined
  readonly href?: string
}) => {
  const body = (
    <>
      <span class="tile-label">{props.label}</span>
      <span class="tile-value">{props.value}</span>
      <span class="tile-note">{props.note ?? "\u00a0"}</span>
    </>
  )
  const name = `tile ${props.tone ?? "plain"}`
  return (
    <li>{props.href === undefined ? <div class={name}>{body}</div> : <a class={name} href={props.href}>{body}</a>}</li>
  )
}

/** A count, quiet where it is none. */
export const Count = (props: { readonly of: number; readonly tone?: Tone }) =>
  props.of === 0
    ? <span class="zero">0</span>
    : props.tone === undefined
    ? <span title={exact(props.of)}>{number(props.of)}</span>
    : <Badge tone={props.tone}>{number(props.of)}</Badge>

/** Where there is nothing to say. */
export const None = () => <span class="zero">–</span>

/** A time as its distance from now, with the moment itself for who points at it. */
export const When = (props: { readonly at: number | undefined; readonly now: number }) =>
  props.at === undefined
    ? <None />
    : <time dateTime={new Date(props.at).toISOString()} title={moment(props.at)}>{relative(props.at, props.now)}</time>

export const Age = (props: { readonly at: number | undefined; readonly now: number }) =>
  props.at === undefined
    ? <None />
    : <time dateTime={new Date(props.at).toISOString()} title={moment(props.at)}>{age(props.now - props.at)}</time>

export interface Column {
  readonly title: string
  readonly end?: boolean
  /** For screen readers alone. */
  readonly silent?: boolean
}

export const Table = (props: {
  readonly label: string
  readonly columns: ReadonlyArray<Column>
  readonly empty: string
  readonly rows: ReadonlyArray<{ readonly key: string; readonly cells: ReadonlyArray<ComponentChildren> }>
}) =>
  props.rows.length === 0 ? <p class="empty">{props.empty}</p> : (
    <div class="scroll" role="group" aria-label={props.label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {props.columns.map((column) => (
              <th scope="col" key={column.title} class={column.end === true ? "end" : ""}>
                {column.silent === true ? <span class="unseen">{column.title}</span> : column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {props.rows.map((row) => (
            <tr key={row.key}>
              {row.cells.map((cell, index) => {
                const { end, title } = props.columns[index]!
                return index === 0
                  ? <th scope="row" key={title}>{cell}</th>
                  : <td key={title} data-title={title} class={end === true ? "end" : ""}>{cell}</td>
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )

/** A text that was stored. */
export const Stored = (props: { readonly label: string; readonly text: string }) => (
  <pre class="stored" tabIndex={0} role="group" aria-label={props.label}>{props.text}</pre>
)

export const Button = (props: {
  readonly onPress: () => void
  readonly tone?: "plain" | "main" | "danger"
  readonly small?: boolean
  readonly label?: string
  readonly disabled?: boolean
  readonly children?: ComponentChildren
}) => (
  <button
    type="button"
    class={`button ${props.tone ?? "plain"}${props.small === true ? " small" : ""}`}
    aria-label={props.label}
    disabled={props.disabled}
    onClick={props.onPress}
  >
    {props.children}
  </button>
)

/** What a view shows while it has nothing, or what went wrong. */
export const Waiting = (props: { readonly failed: Failed | undefined }) =>
  props.failed === undefined
    ? <p class="empty" role="status">Looking …</p>
    : <p class="problem" role="alert">{props.failed.message}</p>

/** What went wrong while older things are still seen. */
export const Stale = (props: { readonly failed: Failed | undefined }) =>
  props.failed === undefined ? null : <p class="problem" role="alert">{props.failed.message} What is shown is older.</p>

/** First and next page. Pages are read forwards; the way back is the browser's own. */
export const Pager = (props: {
  /** What the pages are of, where there are several on a page. */
  readonly of?: string
  readonly first: string | undefined
  readonly next: string | undefined
  readonly children?: ComponentChildren
}) => (
  <nav class="pager" aria-label={props.of === undefined ? "Pages" : `Pages of the ${props.of}`}>
    <span class="muted">{props.children}</span>
    {props.first === undefined ? null : <a class="button plain" href={props.first}>First page</a>}
    {props.next === undefined ? null : <a class="button plain" href={props.next} rel="next">Next page</a>}
  </nav>
)
