import { MemoryBackend } from "effect-dgen"
import { suite } from "./suites/backend.ts"
import { refusalsSuite } from "./suites/backendRefusals.ts"

suite("MemoryBackend", MemoryBackend.layer)
refusalsSuite("MemoryBackend", MemoryBackend.layer)
