// A series over the last minutes. The picture is uPlot's; who cannot see it gets the same in words.
import { useEffect, useId, useRef, useState } from "preact/hooks"
import uPlot from "uplot"

const HEIGHT_PIXELS = 150

const SECOND_MILLIS = 1000

/** The last ten minutes, however few of them were measured. */
const WINDOW_SECONDS = 600

const windowTo = (seconds: number): [number, number] => [seconds - WINDOW_SECONDS, seconds]

const colorOf = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

const faded = (color: string, percent: number) => `color-mix(in srgb, ${color} ${percent}%, transparent)`

const optionsOf = (width: number, color: string, show: (value: number) => string): uPlot.Options => {
  const axis: uPlot.Axis = {
    stroke: colorOf("--muted"),
    font: "11px system-ui, sans-serif",
    grid: { stroke: colorOf("--line"), width: 1 },
    ticks: { show: false }
  }
  return {
    width,
    height: HEIGHT_PIXELS,
    padding: [8, 8, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
    scales: {
      x: { range: (_plot, _min, max) => windowTo(max ?? Date.now() / SECOND_MILLIS) },
      y: { range: (_plot, _min, max) => [0, max === null || max <= 0 ? 1 : max * 1.15] }
    },
    axes: [
      { ...axis, grid: { show: false }, values: "{HH}:{mm}", size: 26, space: 70 },
      { ...axis, size: 52, space: 34, values: (_plot, values) => values.map((value) => show(value)) }
    ],
    series: [
      {},
      {
        stroke: color,
        width: 1.75,
        points: { show: false },
        fill: (plot) => {
          const fill = plot.ctx.createLinearGradient(0, plot.bbox.top, 0, plot.bbox.top + plot.bbox.height)
          fill.addColorStop(0, faded(color, 32))
          fill.addColorStop(1, faded(color, 2))
          return fill
        }
      }
    ]
  }
}

export const Chart = (props: {
  readonly title: string
  readonly color: string
  readonly at: ReadonlyArray<number>
  readonly values: ReadonlyArray<number | null>
  readonly show: (value: number) => string
  /** The same beside the axis, where there is less room. */
  readonly mark?: (value: number) => string
}) => {
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | undefined>(undefined)
  const latest = useRef(props)
  latest.current = props
  const [pointed, setPointed] = useState<number | undefined>()
  const id = useId()

  useEffect(() => {
    const element = place.current!
    const make = () => {
      plot.current?.destroy()
      const options = optionsOf(
        Math.max(120, element.clientWidth),
        colorOf(latest.current.color),
        (value) => (latest.current.mark ?? latest.current.show)(value)
      )
      const setCursor = ({ cursor }: uPlot) => setPointed(cursor.idx ?? undefined)
      plot.current = new uPlot({ ...options, hooks: { setCursor: [setCursor] } }, dataOf(latest.current), element)
    }
    make()
    const resized = new ResizeObserver(() =>
      plot.current?.setSize({ width: Math.max(120, element.clientWidth), height: HEIGHT_PIXELS })
    )
    resized.observe(element)
    const scheme = matchMedia("(prefers-color-scheme: dark)")
    scheme.addEventListener("change", make)
    return () => {
      resized.disconnect()
      scheme.removeEventListener("change", make)
      plot.current?.destroy()
    }
  }, [])
  useEffect(() => plot.current?.setData(dataOf(props)), [props.at, props.values])

  const known = props.values.filter((value) => value !== null)
  const last = known.at(-1)
  const shown = pointed === undefined ? last : props.values[pointed] ?? undefined
  const when = pointed === undefined ? undefined : props.at[pointed]
  return (
    <figure class="card chart" aria-labelledby={id}>
      <figcaption>
        <span id={id} class="chart-title">{props.title}</span>
        <span class="chart-value" aria-hidden="true">
          {when === undefined ? null : <span class="muted">{new Date(when).toLocaleTimeString("en-GB")}</span>}
          <strong>{shown === undefined ? "–" : props.show(shown)}</strong>
        </span>
        <span class="unseen">
          {last === undefined
            ? "Nothing measured yet."
            : `Now ${props.show(last)}, at the most ${props.show(Math.max(...known))} over the last minutes.`}
        </span>
      </figcaption>
      <div ref={place} class="plot" aria-hidden="true" />
    </figure>
  )
}

const dataOf = (
  { at, values }: { readonly at: ReadonlyArray<number>; readonly values: ReadonlyArray<number | null> }
): uPlot.AlignedData => [at.map((millis) => millis / SECOND_MILLIS), [...values]]
