// How a picture is looked at: brighter, turned, and enlarged by whole pixels.

import { at } from "./state.js";

const LIGHTS = [1, 1.6, 2.5, 4, 8, 0.6];
let light = 1, turns = 0;
let room = { width: 0, height: 0 };

// A pixel of a small picture is a whole number of pixels on the screen, or some are wider than others.
export function fitted(width, height, within, ratio = 1) {
  const scale = Math.min(within.width / width, within.height / height);
  const whole = scale * ratio > 1 ? Math.floor(scale * ratio) / ratio : scale;
  return { width: width * whole, height: height * whole };
}

export function look(image = at("stage").querySelector("img")) {
  if (!image?.naturalWidth || !room.width) return;
  const turned = turns % 2 === 1;
  const box = turned ? { width: room.height, height: room.width } : room;
  const size = fitted(image.naturalWidth, image.naturalHeight, box, devicePixelRatio);
  image.style.width = `${size.width}px`;
  image.style.height = `${size.height}px`;
  light === 1 ? image.style.removeProperty("filter") : image.style.setProperty("filter", `brightness(${light})`);
  turns ? image.style.setProperty("transform", `rotate(${90 * turns}deg)`) : image.style.removeProperty("transform");
}

// A picture is turned by itself; a screen that is too dark for one is too dark for the next.
export function begin() { turns = 0; }
export function turn() { turns = (turns + 1) % 4; look(); }
export function brighter() {
  light = LIGHTS[(LIGHTS.indexOf(light) + 1) % LIGHTS.length];
  look();
  return light;
}

export function watchRoom() {
  new ResizeObserver(([entry]) => {
    room = { width: entry.contentRect.width, height: entry.contentRect.height };
    look();
  }).observe(at("stage"));
}
