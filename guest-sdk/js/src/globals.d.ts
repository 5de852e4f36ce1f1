/** The globals of a component beside those of the language. Not for tests, which run in node and use its globals. */

declare const console: Record<"debug" | "info" | "log" | "warn" | "error", (...values: unknown[]) => void>;
declare function setTimeout(job: (...args: any[]) => void, delayMs?: number, ...args: any[]): number;
declare function clearTimeout(timer: number | undefined): void;
declare function queueMicrotask(job: () => void): void;
declare function atob(text: string): string;
declare function btoa(text: string): string;
declare class TextEncoder {
  encode(text?: string): Uint8Array;
}
declare class TextDecoder {
  constructor(label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean });
  decode(bytes?: Uint8Array | ArrayBuffer): string;
}
