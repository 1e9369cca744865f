/** What is measured of queues of jobs, in jobs a second and as ratios within one run. */
import type { Contender, Queue } from "./jobsContenders.ts"

const ROUNDS = 3
/** So many jobs go before each measure: a new file that grows, or code that nobody ran yet, is not what is measured. */
const WARM = 1_000
const ADDS = 2_000
const ALONE = 300
const WORKED = { 1: 600, 16: 2_000 } as const
const IN_FLIGHT = 16
const TEXT = "x".repeat(200)

/** Numbers all jobs, so that none is there already. */
let added = 0

/** Adds so many jobs, so many at once. */
const addAll = async (queue: Queue, count: number, inFlight: number) => {
  let left = count
  const adder = async () => {
    while (left-- > 0) await queue.add({ n: added++, text: TEXT })
  }
  await Promise.all(Array.from({ length: inFlight }, adder))
}

const rate = async (count: number, run: () => Promise<void>) => {
  const begun = performance.now()
  await run()
  return count / (performance.now() - begun) * 1_000
}

const untilFinished = async (queue: Queue, count: number) => {
  while (await queue.finished() < count) await new Promise((resolve) => setTimeout(resolve, 2))
}

const measures: ReadonlyArray<readonly [string, (queue: Queue) => Promise<number>]> = [
  ...([[ALONE, 1, "one after another"], [ADDS, IN_FLIGHT, `${IN_FLIGHT} in flight`]] as const).map((
    [count, inFlight, title]
  ) =>
    [`add, ${title}`, async (queue: Queue) => {
      await addAll(queue, WARM, IN_FLIGHT)
      return rate(count, () => addAll(queue, count, inFlight))
    }] as const
  ),
  ...([1, 16] as const).map((workers) =>
    [`add to finished, ${workers} worker${workers === 1 ? "" : "s"}`, async (queue: Queue) => {
      await queue.work(workers)
      await addAll(queue, WARM, IN_FLIGHT)
      await untilFinished(queue, WARM)
      return rate(WORKED[workers], async () => {
        await addAll(queue, WORKED[workers], IN_FLIGHT)
        await untilFinished(queue, WARM + WORKED[workers])
      })
    }] as const
  )
]

/** Measures all of them, or the rows whose title has these words, and shows what the first one is to the best of the others. */
export const compare = async (contenders: ReadonlyArray<Contender>, only = "") => {
  const chosen = measures.filter(([title]) => title.includes(only))
  /** The best of the rounds, which take turns: what disturbs one library for a while disturbs the others, too. */
  const results = new Map<string, Map<Contender, number>>(measures.map(([title]) => [title, new Map()]))
  try {
    for (let round = 0; round < ROUNDS; round++) {
      for (const [title, measure] of chosen) {
        for (const contender of contenders) {
          const queue = await contender.open()
          try {
            const found = await measure(queue)
            const best = results.get(title)!
            best.set(contender, Math.max(best.get(contender) ?? 0, found))
          } finally {
            await queue.end()
          }
        }
      }
    }
  } finally {
    for (const contender of contenders) await contender.stop()
  }

  const [own, ...others] = contenders
  for (const contender of contenders) console.log(`${contender.name}: ${contender.note}`)
  console.log(
    ["jobs a second".padEnd(30), ...contenders.map(({ name }) => name.padStart(16)), "ratio".padStart(16)].join("")
  )
  for (const [title, rates] of results) {
    const best = Math.max(...others.map((other) => rates.get(other) ?? 0))
    const ratio = best > 0 ? `${(rates.get(own!)! / best).toFixed(2)} x best` : ""
    const columns = contenders.map((contender) => (rates.get(contender) ?? 0).toFixed(0).padStart(16))
    console.log([title.padEnd(30), ...columns, ratio.padStart(16)].join(""))
  }
}
