// Questions before anything changes, and what came of it. A question is the browser's own modal dialog: it keeps the
// keyboard within it, and Escape leaves everything as it is.
import type { ComponentChildren } from "preact"
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks"
import { Failed, mend } from "./api.ts"
import { signalOf } from "./signal.ts"

interface Question {
  readonly title: string
  readonly text: ComponentChildren
  /** What the button says that does it. */
  readonly yes: string
  readonly danger?: boolean
  /** What is sent; a form's fields are added. */
  readonly body: object
  readonly form?: (set: (fields: object | undefined) => void) => ComponentChildren
  readonly done?: () => void
}

/** The question that is open: each is another one, whatever it asks. */
const asked = signalOf<{ readonly question: Question; readonly id: number } | undefined>(undefined)
let askings = 0
const told = signalOf<{ readonly text: string; readonly isBad: boolean; readonly id: number } | undefined>(undefined)
let tellings = 0

/** Asks, and does it if the answer is yes. */
export const ask = (question: Question): void => asked.set({ question, id: ++askings })

const tell = (text: string, isBad: boolean) => told.set({ text, isBad, id: ++tellings })

const TOLD_MILLIS = 8_000

/** The question that is open, if one is. */
export const Asking = () => {
  const open = asked.use()
  return open === undefined ? null : <Dialog key={open.id} question={open.question} />
}

const Dialog = ({ question }: { readonly question: Question }) => {
  const dialog = useRef<HTMLDialogElement>(null)
  const [fields, setFields] = useState<object | undefined>(question.form === undefined ? {} : undefined)
  const [isBusy, setBusy] = useState(false)
  const [problem, setProblem] = useState("")
  useLayoutEffect(() => {
    dialog.current?.showModal()
    // the way back, or the first field
    dialog.current?.querySelector<HTMLElement>("[data-first]")?.focus()
  }, [])
  const close = () => {
    dialog.current?.close()
    // a browser tells of the end of one when the next may be open already
    if (asked.get()?.question === question) asked.set(undefined)
  }
  const submit = async (event: Event) => {
    event.preventDefault()
    if (fields === undefined || isBusy) return
    setBusy(true)
    try {
      const { message } = await mend({ ...question.body, ...fields })
      close()
      tell(message, false)
      question.done?.()
    } catch (cause) {
      setBusy(false)
      setProblem(cause instanceof Failed ? cause.message : String(cause))
    }
  }
  return (
    <dialog ref={dialog} aria-labelledby="question" onClose={close}>
      <form method="dialog" onSubmit={submit}>
        <h2 id="question">{question.title}</h2>
        <div class="question">{question.text}</div>
        {question.form?.(setFields)}
        {problem === "" ? null : <p class="problem" role="alert">{problem}</p>}
        <div class="actions end">
          <button
            type="button"
            class="button plain"
            data-first={question.form === undefined ? "" : undefined}
            onClick={close}
          >
            Cancel
          </button>
          <button
            type="submit"
            class={`button ${question.danger === true ? "danger" : "main"}`}
            disabled={isBusy || fields === undefined}
          >
            {question.yes}
          </button>
        </div>
      </form>
    </dialog>
  )
}

/** What came of it: said by screen readers, and seen for some seconds. */
export const Told = () => {
  const last = told.use()
  useEffect(() => {
    if (last === undefined || last.isBad) return
    const timer = setTimeout(() => told.set(undefined), TOLD_MILLIS)
    return () => clearTimeout(timer)
  }, [last])
  return (
    <div class="told" role="status" aria-live="polite">
      {last === undefined ? null : <p key={last.id} class={last.isBad ? "toast bad" : "toast"}>{last.text}</p>}
    </div>
  )
}
