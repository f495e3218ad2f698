(() => {
  const bad = [];
  const named = e => (e.getAttribute('aria-label') || (document.getElementById(e.getAttribute('aria-labelledby')) || {}).textContent || e.textContent || '').trim();
  for (const e of document.querySelectorAll('input, select, textarea')) if (!e.labels.length && !named(e)) bad.push('no label: ' + e.id);
  for (const e of document.querySelectorAll('img')) if (!e.alt.trim()) bad.push('no alt: ' + e.src.slice(0, 40));
  for (const e of document.querySelectorAll('button, a, summary')) if (!named(e)) bad.push('control without name');
  for (const e of document.querySelectorAll('fieldset')) if (!e.querySelector('legend').textContent.trim()) bad.push('fieldset without legend');
  for (const e of document.querySelectorAll('table')) if (!e.caption || !e.querySelector('th[scope=col]')) bad.push('table without caption or headings');
  for (const e of document.querySelectorAll('*')) {
    const style = getComputedStyle(e), scrolls = /auto|scroll/.test(style.overflowX + style.overflowY);
    if (scrolls && e.tagName !== 'TEXTAREA' && e !== document.documentElement && e.tabIndex < 0) bad.push('scrolls, but no keyboard reaches it: ' + e.className);
    if (e.tabIndex > 0) bad.push('order of keys: ' + e.tagName);
  }
  const levels = [...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].map(h => Number(h.tagName[1]));
  levels.forEach((l, i) => { if (i && l - levels[i - 1] > 1) bad.push('heading skips to ' + l); });
  if (levels.filter(l => l === 1).length !== 1) bad.push('not one h1');
  if (!document.documentElement.lang || !document.title) bad.push('no language or title');
  for (const name of ['main', 'header', 'footer']) if (document.querySelectorAll('body > ' + name).length !== 1) bad.push(name);
  if (document.querySelectorAll('[role=status]').length !== 1) bad.push('no status for what happens');
  const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
  if (new Set(ids).size !== ids.length) bad.push('an id twice');
  for (const e of document.querySelectorAll('[data-choice]')) if (!['true', 'false'].includes(e.getAttribute('aria-pressed'))) bad.push('no state: ' + e.textContent);
  return bad;
})()
