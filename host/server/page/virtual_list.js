// A list of many rows of the same height, of which only those that are seen are in the document.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./dom.js";

/** Rows beyond the edges, so that scrolling does not show a gap. */
const MARGIN_ROWS = 10;
/** A list that is scrolled to within so many pixels of its end follows it. */
const END_PX = 8;

/**
 * `rowOf(i)` returns the content of a row and `keyOf(i)` its number, which rises; `indexOf(key)` returns the index of the first
 * row with that number or a greater one. Rows that come before what is seen do not move it.
 */
export function VirtualList({ count, rowHeight, rowOf, keyOf, indexOf, label, header, className = "", shownKey, onNearStart, isFollowing, setFollowing }) {
  const box = useRef(null);
  const anchor = useRef(null);
  const [range, setRange] = useState({ top: 0, height: 600 });
  const first = Math.max(0, Math.floor(range.top / rowHeight) - MARGIN_ROWS);
  const last = Math.min(count, Math.ceil((range.top + range.height) / rowHeight) + MARGIN_ROWS);
  const measure = () => {
    const element = box.current;
    if (!element) return;
    setRange((before) => (before.top === element.scrollTop && before.height === element.clientHeight ? before : { top: element.scrollTop, height: element.clientHeight }));
  };
  const scrolled = () => {
    const element = box.current;
    const isAtEnd = element.scrollTop + element.clientHeight >= element.scrollHeight - END_PX;
    setFollowing?.(isAtEnd);
    const at = Math.floor(element.scrollTop / rowHeight);
    anchor.current = count ? { key: keyOf(Math.min(at, count - 1)), offset: element.scrollTop - at * rowHeight } : null;
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
      const top = indexOf(anchor.current.key) * rowHeight + anchor.current.offset;
      if (Math.abs(top - element.scrollTop) > 1) element.scrollTop = top;
    }
    measure();
  }, [count, isFollowing, count && keyOf(0)]);
  useLayoutEffect(() => {
    if (shownKey === undefined || !count) return;
    const at = Math.min(count - 1, indexOf(shownKey));
    const element = box.current;
    const top = at * rowHeight;
    if (top < element.scrollTop || top + rowHeight > element.scrollTop + element.clientHeight) {
      setFollowing?.(false);
      element.scrollTop = Math.max(0, top - element.clientHeight / 2);
      anchor.current = { key: shownKey, offset: element.scrollTop - at * rowHeight };
      measure();
    }
  }, [shownKey]);
  const rows = [];
  for (let at = first; at < last; at += 1) {
    rows.push(html`<div key=${keyOf(at)} class="virtual-row" role="row" aria-rowindex=${at + 2} style=${{ top: `${at * rowHeight}px`, height: `${rowHeight}px` }}>${rowOf(at)}</div>`);
  }
  return html`<div class=${`virtual ${className}`} role="table" aria-label=${label} aria-rowcount=${count + 1}>
    <div class="virtual-box" ref=${box} onScroll=${scrolled} tabindex="0" role="rowgroup"><div class="virtual-header" role="row" aria-rowindex="1">${header}</div><div class="virtual-space" role="presentation" style=${{ height: `${count * rowHeight}px` }}>${rows}</div></div></div>`;
}

/** Returns the index of the first of `list`, which is ordered by `n`, whose number is `n` or greater. */
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
