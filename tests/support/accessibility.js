// Check the page against WCAG 2 AA, as far as a script can tell: contrast, names, labels, ids, headings and references.
(() => {
  const found = [];
  const report = (rule, node) => found.push(`${rule}: ${node.outerHTML.slice(0, 160)}`);
  const shown = (node) => node.checkVisibility({ visibilityProperty: true }) && !node.closest('[aria-hidden=true]');
  const all = (selector) => [...document.querySelectorAll(selector)].filter(shown);

  const colour = (text) => text.match(/[\d.]+/g).map(Number);
  const over = (front, back) => {
    const alpha = front[3] ?? 1;
    return [0, 1, 2].map((at) => front[at] * alpha + back[at] * (1 - alpha));
  };
  const background = (node) => {
    const own = colour(getComputedStyle(node).backgroundColor);
    if ((own[3] ?? 1) === 1) return own;
    return over(own, node.parentElement ? background(node.parentElement) : [255, 255, 255]);
  };
  const luminance = (rgb) => {
    const [red, green, blue] = rgb.map((value) => value / 255).map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (one, other) => {
    const [dark, light] = [luminance(one), luminance(other)].sort((left, right) => left - right);
    return (light + 0.05) / (dark + 0.05);
  };
  for (const node of all('body *')) {
    if (![...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim())) continue;
    const style = getComputedStyle(node);
    const size = parseFloat(style.fontSize);
    const least = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    const back = background(node);
    if (contrast(over(colour(style.color), back), back) < least) report('contrast of text', node);
  }
  for (const line of all('.swatch line')) {
    const stroke = line.getAttribute('stroke');
    if (stroke !== 'none' && contrast([1, 3, 5].map((at) => parseInt(stroke.slice(at, at + 2), 16)), [255, 255, 255]) < 3) report('contrast of a line', line);
  }

  const text = (ids) => ids.split(/\s+/).map((id) => document.getElementById(id)?.textContent ?? '').join(' ').trim();
  const name = (node) => (node.getAttribute('aria-labelledby') ? text(node.getAttribute('aria-labelledby')) : '')
    || node.getAttribute('aria-label') || [...(node.labels ?? [])].map((label) => label.textContent.trim()).join(' ') || node.textContent.trim();
  for (const node of all('button, a[href], [role=img], [role=grid], [role=region], dialog, section')) if (!name(node)) report('accessible name', node);
  for (const node of all('input, select, textarea')) if (!node.labels?.length && !node.getAttribute('aria-label')) report('label', node);
  for (const node of all('button[aria-label]')) if (!node.getAttribute('aria-label').includes(node.innerText.trim())) report('label in name', node);
  for (const node of all('table')) if (!node.caption && !node.getAttribute('aria-labelledby') && !node.closest('dialog')) report('name of a table', node);
  for (const node of all('th')) if (!node.scope) report('scope of a header', node);

  const seen = new Set();
  for (const node of document.querySelectorAll('[id]')) {
    if (seen.has(node.id)) report('unique id', node);
    seen.add(node.id);
  }
  for (const attribute of ['aria-labelledby', 'aria-describedby', 'for'])
    for (const node of document.querySelectorAll(`[${attribute}]`))
      for (const id of node.getAttribute(attribute).split(/\s+/)) if (!document.getElementById(id)) report(`target of ${attribute}`, node);

  const levels = all('h1, h2, h3, h4').map((node) => Number(node.tagName[1]));
  levels.forEach((level, at) => { if (at && level > levels[at - 1] + 1) report('order of headings', document.body.querySelectorAll('h1, h2, h3, h4')[at]); });
  if (all('h1').length !== 1) report('one h1', document.body);
  if (all('main').length !== 1) report('one main', document.body);
  if (!document.documentElement.lang) report('language', document.documentElement);
  for (const node of all('[tabindex]')) if (node.tabIndex > 0) report('tabindex above 0', node);
  for (const node of all('.scrolls, pre')) {
    const scrolls = node.scrollWidth > node.clientWidth + 1 || node.scrollHeight > node.clientHeight + 1;
    if (scrolls && node.tabIndex < 0 && !node.querySelector('[tabindex="0"], a[href], button:not([tabindex="-1"])')) report('keyboard access to a scrolled region', node);
  }
  return found;
})()
