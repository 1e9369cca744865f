/**
 * Values as the text of statements: a commit, or a transaction's first read, is one message that holds several statements,
 * and such a message has no parameters. Bytes go as hexadecimal digits and numbers as numbers, so nothing of a user's is
 * ever read as SQL; the `E` makes backslashes mean the same under every setting of the server.
 */

const hexOf = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex")

export const bytea = (bytes: Uint8Array): string => `E'\\\\x${hexOf(bytes)}'::bytea`

/** `undefined` is NULL. */
export const byteas = (values: ReadonlyArray<Uint8Array | undefined>): string => {
  if (values.length === 0) return "'{}'::bytea[]"
  let text = ""
  for (const value of values) text += value === undefined ? ",NULL" : `,"\\\\\\\\x${hexOf(value)}"`
  return `E'{${text.slice(1)}}'::bytea[]`
}

export const ints = (values: ReadonlyArray<number>): string => `'{${values.join()}}'::int[]`

/** `undefined` is NULL. */
export const bigints = (values: ReadonlyArray<bigint | undefined>): string =>
  `'{${values.map((value) => value === undefined ? "NULL" : String(value)).join()}}'::bigint[]`

export const booleans = (values: ReadonlyArray<boolean>): string =>
  `'{${values.map((value) => value ? "t" : "f").join()}}'::boolean[]`

/** A name that stands for itself, whatever characters it has. */
export const identifier = (name: string): string => `"${name.replaceAll("\"", "\"\"")}"`

/** A text; it must have no backslash. */
export const text = (value: string): string => `'${value.replaceAll("'", "''")}'`
