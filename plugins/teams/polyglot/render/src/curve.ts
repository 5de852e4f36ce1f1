// Draws the readings as a curve in SVG.

export interface Reading { day: string; temperature: number; wind: number }

const [WIDTH, HEIGHT, MARGIN] = [640, 160, 12];

/** Returns the curve as SVG. The days in `odd` are marked. */
export function curve(readings: Reading[], odd: Set<string>): string {
  const values = readings.map(({ temperature }) => temperature);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const x = (i: number) => MARGIN + (i / (readings.length - 1)) * (WIDTH - 2 * MARGIN);
  const y = (value: number) => HEIGHT - MARGIN - ((value - low) / (high - low || 1)) * (HEIGHT - 2 * MARGIN);
  const places = readings.map(({ day, temperature }, i) => ({ day, at: [x(i), y(temperature)].map((each) => each.toFixed(1)) }));
  const marks = places.filter(({ day }) => odd.has(day)).map(({ at: [cx, cy] }) => `<circle cx="${cx}" cy="${cy}" r="5" fill="#d33"/>`);
  const line = `<polyline points="${places.map(({ at }) => at.join(",")).join(" ")}" fill="none" stroke="#36c" stroke-width="2"/>`;
  return `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}">${line}${marks.join("")}</svg>`;
}
