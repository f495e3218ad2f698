(() => {
  const parse = text => { const n = text.match(/[\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const over = (top, under) => [0, 1, 2].map(i => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const light = c => { const l = c.slice(0, 3).map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
    return .2126 * l[0] + .7152 * l[1] + .0722 * l[2]; };
  const ground = element => { const stack = []; for (let e = element; e; e = e.parentElement) stack.push(parse(getComputedStyle(e).backgroundColor));
    return stack.reduceRight((under, top) => over(top, under), [255, 255, 255, 1]); };
  const bad = []; let seen = 0;
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || ['SCRIPT', 'STYLE', 'TITLE', 'title'].includes(e.tagName) || !e.getClientRects().length) continue;
    const style = getComputedStyle(e), svg = e instanceof SVGElement;
    if (svg && (e.classList.contains('dark') || e.classList.contains('light'))) continue;  // on a cell, tested apart
    const under = ground(e), text = over(parse(svg ? style.fill : style.color), under);
    const a = light(text), b = light(under), ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    seen += 1;
    if (ratio < 4.5) bad.push([e.tagName, e.className.baseVal || e.className, e.textContent.slice(0, 30), ratio.toFixed(2)].join(' '));
  }
  return {bad, seen};
})()
