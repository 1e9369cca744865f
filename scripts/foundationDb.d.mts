export interface Found {
  readonly missing?: string
  readonly clusterFile?: string
  readonly fdbserver?: string
  readonly fdbcli?: string
  readonly library?: string
  readonly needsPackage?: boolean
}
export declare const findFoundationDb: (env?: NodeJS.ProcessEnv) => Found
export declare const whySkipped: (found?: Found) => string | undefined
export declare const withLibrary: (env: NodeJS.ProcessEnv, found?: Found) => NodeJS.ProcessEnv
