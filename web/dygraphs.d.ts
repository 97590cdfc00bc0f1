// What the page uses of dygraphs 2.2, whose package has no types.
type DygraphRow = (number | Date | null)[];
declare class Dygraph {
  constructor(target: HTMLElement, rows: DygraphRow[], options: Record<string, unknown>);
  updateOptions(options: Record<string, unknown>): void;
  resize(): void;
  destroy(): void;
  toDomXCoord(x: number): number;
  toDataCoords(x: number, y: number): [number, number];
  static dateTicker(from: number, until: number, pixels: number, option: (name: string) => unknown): {v: number, label: string}[];
  static dateAxisLabelFormatter: unknown;
  static defaultInteractionModel: Record<string, unknown>;
  static PLUGINS: unknown[];
  static Plugins: Record<string, unknown>;
}
