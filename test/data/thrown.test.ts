/** Whatever was thrown becomes text that can be kept and shown, and a cause that a logger can be given. */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Logger, Redacted } from "effect"
import { show } from "../../src/internal/data/show.ts"
import { printable } from "../../src/internal/data/text.ts"
import { messageOfThrown, tameCause, textOfCause, textOfThrown } from "../../src/internal/data/thrown.ts"
import { hostileValues, isPresentable } from "../support/hostileValues.ts"

describe("what was thrown", () => {
  for (const [name, make] of Object.entries(hostileValues)) {
    it(`is text: ${name}`, () => {
      for (
        const text of [
          textOfThrown(make()),
          messageOfThrown(make()),
          show(make()),
          textOfCause(Cause.die(make())),
          textOfCause(Cause.fail(make())),
          textOfCause(Cause.die(new Error("outer", { cause: make() }))),
          textOfCause(Cause.die(new AggregateError([make()], "outer")))
        ]
      ) {
        assert.isTrue(isPresentable(text), JSON.stringify(text).slice(0, 200))
      }
    })
    it.effect(`can be given to any logger: ${name}`, () => {
      const texts: Array<string> = []
      const formats = [Logger.formatJson, Logger.formatLogFmt, Logger.formatSimple]
      const loggers = formats.map((format) => Logger.map(format, (text: string) => void texts.push(text)))
      const own = Logger.make(({ cause }) => void texts.push(JSON.stringify(cause), String(cause), Cause.pretty(cause)))
      return Effect.logError("it crashed", tameCause(Cause.die(make()))).pipe(
        Effect.provide(Logger.layer([...loggers, own])),
        Effect.map(() => assert.strictEqual(texts.length, 6))
      )
    })
  }
  it("keeps what an error says: name, message, stack, fields and causes", () => {
    class Overdrawn extends Error {
      override readonly name = "Overdrawn"
      readonly _tag = "Overdrawn"
      readonly code = 42
    }
    const error = new Overdrawn("no money", { cause: new Error("the bank is closed") })
    const text = textOfCause(Cause.die(error))
    assert.include(text, "Overdrawn: no money\n")
    assert.include(text, "[cause]: Error: the bank is closed")
    assert.include(text, "thrown.test.ts")
    const tame: any = Cause.squash(tameCause(Cause.die(error)))
    assert.deepInclude({ ...tame }, { _tag: "Overdrawn", code: 42 })
    assert.strictEqual(messageOfThrown(error), "no money")
  })
  it("names every error of several", () => {
    const text = textOfCause(Cause.die(new AggregateError([new Error("left"), "right"], "both")))
    for (const part of ["both", "Error: left", "right"]) assert.include(text, part)
  })
  it("tells interruptions from failures", () => {
    assert.include(textOfCause(Cause.interrupt(1)), "interrupted")
    assert.isTrue(Cause.hasInterruptsOnly(tameCause(Cause.interrupt(1))))
  })
  it("hides what is redacted", () => {
    for (const value of [Redacted.make("4111"), { card: Redacted.make("4111") }, [Redacted.make("4111")]]) {
      assert.notInclude(show(value), "4111")
      assert.notInclude(textOfThrown(value), "4111")
      assert.notInclude(textOfThrown(new Error("failed", { cause: value })), "4111")
    }
  })
})

describe("text", () => {
  it("is cut within its limit, and never through a character", () => {
    for (const limit of [1, 2, 3, 10, 11]) {
      const text = printable("😀".repeat(20), limit)
      assert.isAtMost(text.length, limit)
      assert.isTrue(text.isWellFormed())
    }
    assert.strictEqual(printable("short", 5), "short")
  })
  it("shows control characters as what they are, and keeps lines", () => {
    assert.strictEqual(printable("a\tb\nc\r\nd\0"), "a\tb\nc\nd\\u0000")
  })
})
