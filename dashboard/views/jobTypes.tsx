// Types of jobs, with how many there are in each state.
import type { JobState, JobTypeRow } from "../../src/internal/dashboard/wire.ts"
import { Badge, Count, Table, type Tone } from "../parts.tsx"
import { to } from "../route.ts"

export const STATES: ReadonlyArray<JobState> = ["pending", "running", "finished", "dead"]

export const TONES: Readonly<Record<JobState, Tone>> = {
  pending: "plain",
  running: "busy",
  finished: "good",
  dead: "bad"
}

export const JobTypes = ({ types }: { readonly types: ReadonlyArray<JobTypeRow> }) => (
  <Table
    label="Types of jobs"
    empty="There are no jobs here."
    columns={[
      { title: "Type" },
      ...STATES.map((state) => ({ title: state[0]!.toUpperCase() + state.slice(1), end: true })),
      { title: "Taken" }
    ]}
    rows={types.map((type) => ({
      key: type.type,
      cells: [
        <a key="type" class="mono" href={to("jobs", { type: type.type })}>{type.type}</a>,
        ...STATES.map((state) => (
          <a
            key={state}
            class="quiet"
            href={to("jobs", { type: type.type, state })}
            aria-label={`${type.counts[state]} ${state}`}
          >
            <Count of={type.counts[state]} {...(state === "dead" ? { tone: "bad" as const } : {})} />
          </a>
        )),
        type.isPaused ? <Badge key="taken" tone="warn">paused</Badge> : <Badge key="taken" tone="good">yes</Badge>
      ]
    }))}
  />
)
