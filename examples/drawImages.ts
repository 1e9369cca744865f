/**
 * Draws the pictures in `examples/data`: each pixel by a formula, so nobody else's picture is needed.
 *
 *   node examples/drawImages.ts
 */
import * as fs from "node:fs"
import * as path from "node:path"
import sharp from "sharp"

const WIDTH = 480
const HEIGHT = 360

/** The colour at a point: both coordinates from 0 to 1, three channels from 0 to 1. */
type Picture = (x: number, y: number) => readonly [number, number, number]

const mix = (a: number, b: number, share: number) => a + (b - a) * Math.min(1, Math.max(0, share))

/** A sun behind three ranges of hills. */
const hills: Picture = (x, y) => {
  for (const [i, depth] of [0.82, 0.7, 0.58].entries()) {
    const ridge = depth + 0.05 * Math.sin(x * (9 - 2 * i) + i * 2) + 0.02 * Math.sin(x * 31 + i)
    if (y > ridge) return [0.12 + 0.16 * i, 0.16 + 0.14 * i, 0.3 + 0.13 * i]
  }
  if (Math.hypot((x - 0.68) * 4 / 3, y - 0.38) < 0.11) return [1, 0.86, 0.55]
  return [mix(0.35, 1, y * 1.5), mix(0.45, 0.7, y * 1.5), mix(0.75, 0.5, y * 1.5)]
}

/** How long a point takes to leave: the Mandelbrot set. */
const mandelbrot: Picture = (x, y) => {
  const [cr, ci] = [x * 3 - 2.15, (y - 0.5) * 2.25]
  let [zr, zi, steps] = [0, 0, 0]
  while (zr * zr + zi * zi < 4 && steps < 60) {
    ;[zr, zi] = [zr * zr - zi * zi + cr, 2 * zr * zi + ci]
    steps++
  }
  const share = Math.floor(steps / 3) / 20
  return steps === 60 ? [0.05, 0.05, 0.12] : [share, share * share, mix(0.4, 0.1, share)]
}

/** Rings of two stones in a pond. */
const pond: Picture = (x, y) => {
  const ring = (cx: number, cy: number) => Math.cos(Math.hypot((x - cx) * 4 / 3, y - cy) * 70)
  const light = Math.round((ring(0.3, 0.4) + ring(0.75, 0.6) + 2) * 4) / 16
  return [0.1 + 0.5 * light, 0.35 + 0.5 * light, 0.5 + 0.5 * light]
}

/** Tiles, light and dark, each with a disc of the other colour. */
const tiles: Picture = (x, y) => {
  const [column, row] = [Math.floor(x * 8), Math.floor(y * 6)]
  const isDisc = Math.hypot(x * 8 - column - 0.5, y * 6 - row - 0.5) < 0.3
  const isLight = (column + row) % 2 === (isDisc ? 0 : 1)
  return isLight ? [0.93, 0.88, 0.8] : [0.72, 0.25 + row * 0.06, 0.2 + column * 0.05]
}

const draw = (picture: Picture): Promise<Buffer> => {
  const pixels = Buffer.alloc(WIDTH * HEIGHT * 3)
  for (let i = 0; i < WIDTH * HEIGHT; i++) {
    const colour = picture((i % WIDTH) / WIDTH, Math.floor(i / WIDTH) / HEIGHT)
    for (const [channel, value] of colour.entries()) pixels[i * 3 + channel] = Math.round(255 * value)
  }
  return sharp(pixels, { raw: { width: WIDTH, height: HEIGHT, channels: 3 } })
    .png({ compressionLevel: 9, palette: true, colours: 64, dither: 0 })
    .toBuffer()
}

const folder = path.join(import.meta.dirname, "data")
fs.mkdirSync(folder, { recursive: true })
for (const [name, picture] of Object.entries({ hills, mandelbrot, pond, tiles })) {
  fs.writeFileSync(path.join(folder, `${name}.png`), await draw(picture))
}
