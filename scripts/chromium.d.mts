export declare const findChromium: (env?: NodeJS.ProcessEnv) => string | undefined
export declare const whyNoBrowser: () => string | undefined
