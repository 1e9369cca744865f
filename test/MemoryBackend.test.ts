import { MemoryBackend } from "effect-dgen"
import { suite } from "./suites/backend.ts"

suite("MemoryBackend", MemoryBackend.layer)
