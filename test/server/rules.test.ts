import { MemoryBackend } from "effect-dgen"
import { allServer } from "../suites/server/all.ts"

allServer("servers on MemoryBackend", MemoryBackend.layer)
