// Draws what is expensive to draw less often than events come.

import { useEffect, useRef, useState } from "./dom.js";

/** Returns the value of a signal, at most once in `ms`. */
export function useThrottled(source, ms) {
  const [value, setValue] = useState(source.peek());
  const timer = useRef(0);
  useEffect(() => {
    const stop = source.subscribe(() => {
      timer.current ||= setTimeout(() => {
        timer.current = 0;
        setValue(source.peek());
      }, ms);
    });
    return () => {
      stop();
      clearTimeout(timer.current);
      timer.current = 0;
    };
  }, [source]);
  return value;
}
