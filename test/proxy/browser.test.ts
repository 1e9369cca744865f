/** A browser makes its client of the server's own definition: bundled, with nothing of Node, and in a real page. */
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import { builtinModules } from "node:module"
import * as path from "node:path"
import { build } from "vite"
import { inChromium, startBrowser } from "../support/chromium.ts"
import { Url } from "./support.ts"
import { served } from "./support.ts"

const root = path.join(import.meta.dirname, "../..")

/** The bundle of a module, and all modules that were looked at for it, used or not. */
const bundle = async (entry: string): Promise<{ readonly code: string; readonly modules: ReadonlyArray<string> }> => {
  const modules: Array<string> = []
  const built = await build({
    root,
    configFile: false,
    logLevel: "silent",
    resolve: { conditions: ["effect-dgen-source"] },
    build: { write: false, lib: { entry, formats: ["es"], fileName: "page" } },
    plugins: [{ name: "looked at", moduleParsed: ({ id }) => void modules.push(id) }]
  })
  const [first] = [built].flat()
  assert.isTrue(first !== undefined && "output" in first)
  return { code: (first as { output: ReadonlyArray<{ code: string }> }).output[0]!.code, modules }
}

const isOfNode = (id: string): boolean =>
  id.startsWith("node:") || id.includes("__vite-browser-external") || builtinModules.includes(id)

const page = path.join(import.meta.dirname, "page.ts")

describe("a definition in a browser", () => {
  it("is bundled by Vite with nothing of Node, and nothing of what runs servers", async () => {
    const { code, modules } = await bundle(page)
    assert.deepStrictEqual(modules.filter(isOfNode), [])
    assert.notMatch(code.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, ""), /\bBuffer\.|\bprocess\.\w|\brequire\(/)
    const own = modules.filter((id) => id.startsWith(path.join(root, "src")))
      .map((id) => path.relative(path.join(root, "src"), id))
    assert.includeMembers(own, ["Protocol.ts", "DgenProxy.ts"])
    const needless = own.filter((id) =>
      !/^(?:Protocol|DgenProxy)\.ts$|^internal\/(?:data|proxy\/definition|server\/definition)\//.test(id)
    )
    assert.deepStrictEqual(needless, [])
  })

  inChromium("calls a server from a page", () => {
    layer(served(), { excludeTestServices: true, timeout: 60_000 })((it) => {
      it.effect("calls a server from a page", () =>
        Effect.gen(function*() {
          const url = yield* Url
          const result = yield* Effect.promise(async () => {
            const { code } = await bundle(page)
            const browser = await startBrowser()
            const tab = await browser.newPage()
            // the page comes from the server's own origin; what it asks goes over the network
            await tab.route(`${url}/page`, (route) =>
              route.fulfill({ contentType: "text/html", body: `<script type="module">${code}</script>` }))
            await tab.goto(`${url}/page`)
            return tab.evaluate(() =>
              (globalThis as any).result as Promise<unknown>
            )
          })
          assert.deepStrictEqual(result, {
            notes: ["from a page"],
            balance: 70,
            error: { tag: "Overdrawn", balance: 70 }
          })
        }))
    })
  })
})
