// Schedules: when they last came and come next.
import type { ScheduleRow, SchedulesPage } from "../../src/internal/dashboard/wire.ts"
import { usePolled } from "../api.ts"
import { ask } from "../asking.tsx"
import { Badge, Button, Card, Page, Stale, Table, Waiting, When } from "../parts.tsx"

export const Schedules = ({ canMend }: { readonly canMend: boolean }) => {
  const { again, data, failed } = usePolled<SchedulesPage>("schedules")
  return (
    <Page title="Schedules" sub="Jobs that come by the clock">
      {data === undefined ? <Waiting failed={failed} /> : (
        <>
          <Stale failed={failed} />
          <Card title="Schedules">
            <Table
              label="Schedules"
              empty="There is none."
              columns={[
                { title: "Schedule" },
                { title: "Jobs" },
                { title: "Expression" },
                { title: "Zone" },
                { title: "Last" },
                { title: "Next" },
                { title: "State" },
                ...(canMend ? [{ title: "Mend", silent: true, end: true }] : [])
              ]}
              rows={data.schedules.map((row) => ({
                key: `${row.type} ${row.name}`,
                cells: [
                  row.name,
                  <span key="type" class="mono">{row.type}</span>,
                  <code key="cron">{row.cron}</code>,
                  row.timeZone,
                  <When key="last" at={row.lastAt} now={data.now} />,
                  <When key="next" at={row.nextAt} now={data.now} />,
                  <ScheduleState key="state" row={row} now={data.now} />,
                  ...(canMend ? [<Mending key="mend" row={row} again={again} />] : [])
                ]
              }))}
            />
          </Card>
        </>
      )}
    </Page>
  )
}

/** A tick that is overdue for so long says that no process runs the schedule. */
const LATE_MILLIS = 60_000

const ScheduleState = ({ now, row }: { readonly row: ScheduleRow; readonly now: number }) =>
  row.isPaused
    ? <Badge tone="warn">paused</Badge>
    : row.nextAt !== undefined && now - row.nextAt > LATE_MILLIS
    ? <Badge tone="bad">overdue</Badge>
    : <Badge tone="good">well</Badge>

const Mending = ({ again, row }: { readonly row: ScheduleRow; readonly again: () => void }) => {
  const body = { type: row.type, name: row.name }
  return (
    <span class="actions end">
      <Button
        small
        label={`${row.isPaused ? "Resume" : "Pause"} ${row.name}`}
        onPress={() =>
          ask({
            title: row.isPaused ? "Resume this schedule?" : "Pause this schedule?",
            text: (
              <p>
                <code>{row.name}</code>{" "}
                {row.isPaused ? "begins anew, from now on." : "adds no job until it is resumed."}
              </p>
            ),
            yes: row.isPaused ? "Resume" : "Pause",
            body: { ...body, operation: row.isPaused ? "resume-schedule" : "pause-schedule" },
            done: again
          })}
      >
        {row.isPaused ? "Resume …" : "Pause …"}
      </Button>
      <Button
        small
        label={`Run ${row.name} now`}
        onPress={() =>
          ask({
            title: "Run this schedule now?",
            text: (
              <p>
                A job of <code>{row.type}</code> is added by whoever runs{" "}
                <code>{row.name}</code>. Its ticks stay as they are.
              </p>
            ),
            yes: "Run now",
            body: { ...body, operation: "run-schedule" },
            done: again
          })}
      >
        Run now …
      </Button>
      <Button
        small
        label={`Reset ${row.name}`}
        onPress={() =>
          ask({
            title: "Reset this schedule?",
            text: (
              <p>
                <code>{row.name}</code> begins anew from now on: ticks that were missed are forgotten.
              </p>
            ),
            yes: "Reset",
            body: { ...body, operation: "reset-schedule" },
            done: again
          })}
      >
        Reset …
      </Button>
    </span>
  )
}
