// A question that is asked again while its view is open: when the cluster changes, not more often than `pause_ms`, and
// now and then without a change, for some of what answers depend on is in no row.
//
//   const close = keepAsking(state, {
//     path: "/api/v1/pending", isAbout: changed => changed.pods, onAnswer, onError,
//     isWorking: answer => answer.working,               // a newer answer is on its way: ask again soon
//   });

import {ask} from "./api.js";

/** Ask until the function that is given back is called. */
export function keepAsking(
  state,
  {path, isAbout, onAnswer, onError, isWorking = () => false, pause_ms = 2000, renew_ms = 10000},
) {
  const controller = new AbortController();
  let timer = 0;
  let isAsking = false;
  let isChanged = false;
  let asked_at = -Infinity;

  const later = pause => {
    clearTimeout(timer);
    timer = setTimeout(begin, pause);
  };

  async function begin() {
    if (isAsking || controller.signal.aborted) return;
    isAsking = true;
    isChanged = false;
    asked_at = performance.now();
    let isSoon = false;
    try {
      const answer = await ask(path, {signal: controller.signal});
      if (controller.signal.aborted) return;
      isSoon = isWorking(answer);
      await onAnswer(answer);
    } catch (error) {
      if (controller.signal.aborted) return;
      onError(error);
    } finally {
      isAsking = false;
    }
    later(isSoon || isChanged ? Math.max(0, asked_at + Math.min(pause_ms, isSoon ? 1000 : pause_ms) - performance.now()) : renew_ms);
  }

  const stop = state.onChange(changed => {
    if (!isAbout(changed) || isChanged) return;
    isChanged = true;
    if (!isAsking) later(Math.max(50, asked_at + pause_ms - performance.now()));
  });
  begin();
  return () => {
    controller.abort();
    clearTimeout(timer);
    stop();
  };
}
