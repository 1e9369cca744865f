/** Builds the dashboard's page into dist/dashboard. Succeeds with the folder. */
export const build: () => Promise<string>
