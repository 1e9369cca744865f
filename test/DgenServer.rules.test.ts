import { MemoryBackend } from "effect-dgen"
import { allServer } from "./suites/allServer.ts"

allServer("servers on MemoryBackend", MemoryBackend.layer)
