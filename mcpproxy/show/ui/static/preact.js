// @ts-check
/** The functions of preact and htm that the components use, with types. */
import * as library from "./vendor/preact-htm.js";

/** @type {(strings: TemplateStringsArray, ...values: any[]) => any} */
export const html = library.html;
/** @type {(node: any, parent: HTMLElement) => void} */
export const render = library.render;
/** @type {<T>(initial: T | (() => T)) => [T, (next: T | ((before: T) => T)) => void]} */
export const useState = library.useState;
/** @type {(effect: () => void | (() => void), inputs?: readonly unknown[]) => void} */
export const useEffect = library.useEffect;
/** @type {(effect: () => void | (() => void), inputs?: readonly unknown[]) => void} */
export const useLayoutEffect = library.useLayoutEffect;
/** @type {<T>(make: () => T, inputs: readonly unknown[]) => T} */
export const useMemo = library.useMemo;
/** @type {<T>(initial: T) => {current: T}} */
export const useRef = library.useRef;
/** @type {(handler?: (error: any) => void) => [any, () => void]} */
export const useErrorBoundary = /** @type {any} */ (library.useErrorBoundary);
