// A table of many rows of the same height, of which only those that are seen are in the document.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./dom.js";
import { selectEvent } from "./router.js";

/** Rows beyond the edges, so that scrolling does not show a gap. */
const MARGIN_ROWS = 10;
/** A list that is scrolled to within so many pixels of its end follows it. */
const END_PX = 8;

/**
 * Shows events, or what else has a number `n` that rises. Rows that come before what is seen do not move it. Each column is
 * `{name, show, className}`; that which is `linked` selects the row.
 */
export function VirtualTable({ list, columns, linked, chosen, rowHeight, label, className, onNearStart, isFollowing, setFollowing }) {
  const box = useRef(null);
  const anchor = useRef(null);
  const [range, setRange] = useState({ top: 0, height: 600 });
  const count = list.length;
  const first = Math.max(0, Math.floor(range.top / rowHeight) - MARGIN_ROWS);
  const last = Math.min(count, Math.ceil((range.top + range.height) / rowHeight) + MARGIN_ROWS);
  const measure = () => {
    const element = box.current;
    if (!element) return;
    setRange((before) => (before.top === element.scrollTop && before.height === element.clientHeight ? before : { top: element.scrollTop, height: element.clientHeight }));
  };
  const scrolled = () => {
    const element = box.current;
    setFollowing(element.scrollTop + element.clientHeight >= element.scrollHeight - END_PX);
    const at = Math.floor(element.scrollTop / rowHeight);
    anchor.current = count ? { n: list[Math.min(at, count - 1)].n, offset: element.scrollTop - at * rowHeight } : null;
    if (element.scrollTop < rowHeight * MARGIN_ROWS) onNearStart?.();
    measure();
  };
  useEffect(() => {
    const observer = new ResizeObserver(measure);
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    const element = box.current;
    if (isFollowing) element.scrollTop = element.scrollHeight;
    else if (anchor.current) {
      const top = indexOfNumber(list, anchor.current.n) * rowHeight + anchor.current.offset;
      if (Math.abs(top - element.scrollTop) > 1) element.scrollTop = top;
    }
    measure();
  }, [count, isFollowing, list[0]?.n]);
  useLayoutEffect(() => {
    if (chosen === undefined || !count) return;
    const at = Math.min(count - 1, indexOfNumber(list, chosen));
    const element = box.current;
    const top = at * rowHeight;
    if (top < element.scrollTop || top + rowHeight > element.scrollTop + element.clientHeight) {
      setFollowing(false);
      element.scrollTop = Math.max(0, top - element.clientHeight / 2);
      anchor.current = { n: chosen, offset: element.scrollTop - at * rowHeight };
      measure();
    }
  }, [chosen]);
  const cell = (one) => ({ name, className: of, show }) => html`<span role="cell" class=${typeof of === "function" ? of(one) : of}>${name === linked
    ? html`<button class="link" aria-pressed=${one.n === chosen} onClick=${() => selectEvent(one.n)}>${show(one)}</button>` : show(one)}</span>`;
  const rows = list.slice(first, last).map((one, i) => html`<div key=${one.n} class="virtual-row" role="row" aria-rowindex=${first + i + 2} style=${{ top: `${(first + i) * rowHeight}px`, height: `${rowHeight}px` }}>${columns.map(cell(one))}</div>`);
  return html`<div class=${`virtual ${className}`} role="table" aria-label=${label} aria-rowcount=${count + 1}>
    <div class="virtual-box" ref=${box} onScroll=${scrolled} tabindex="0" role="rowgroup"><div class="virtual-header" role="row" aria-rowindex="1">${columns.map(({ name, className: of }) => html`<span role="columnheader" class=${typeof of === "function" ? of() : of}>${name}</span>`)}</div>
      <div class="virtual-space" role="presentation" style=${{ height: `${count * rowHeight}px` }}>${rows}</div></div></div>`;
}

/** The index of the first whose number is `n` or greater, in a list that is ordered by that. */
export function indexOfNumber(list, n) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle].n < n) low = middle + 1;
    else high = middle;
  }
  return low;
}
