/**
 * How encoders and decoders refuse: they throw a `Refused` from wherever they are, and who called them catches it in one
 * place and answers with a typed error. Nothing else is thrown by purpose.
 */

/** Where in a state: names of entries, ids of items, positions in arrays. */
export type Path = ReadonlyArray<string | number>

/** Names are as long as users make them; an error shows this much of one. */
const SHOWN_CHARACTERS = 60

const shown = (part: string | number): string => {
  const text = String(part).toWellFormed()
  return text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS).toWellFormed()}…` : text
}

/** The path as an error shows it. */
const fieldOf = (path: Path): string => path.map(shown).join(".")

/** A value that cannot be written, or bytes that are none. */
export class Refused extends Error {
  override readonly name = "Refused"
  readonly field: string
  readonly problem: string
  constructor(path: Path, problem: string) {
    super(problem)
    this.field = fieldOf(path)
    this.problem = problem
  }
}
