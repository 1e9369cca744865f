/** The commands of the dashboard. */

/** There are none yet. */
export const dashboardCommands = [] as const
