'use strict';
{
	const byId = id => document.getElementById(id);
	const body = document.body;

	// replace puts rendered text in an element, and leaves alone what is the same, so that nothing is read out twice.
	function replace(element, html) {
		if (element.innerHTML === html) return;
		const focused = [...element.querySelectorAll('a, pre')].indexOf(document.activeElement);
		element.innerHTML = html;
		if (focused >= 0) element.querySelectorAll('a, pre')[focused]?.focus();
	}

	// mark has the elements of the picture with these ids carry a class, and no others.
	function mark(name, ids) {
		for (const element of document.querySelectorAll('.lifecycle .' + name)) element.classList.remove(name);
		for (const id of ids) byId(id)?.classList.add(name);
	}

	// reveal scrolls the picture, and nothing else, to the state of now, where it does not fit.
	function reveal() {
		const frame = byId('picture'), state = frame.querySelector('.current');
		if (!state) return;
		const outer = frame.getBoundingClientRect(), inner = state.getBoundingClientRect();
		frame.scrollLeft += inner.left + inner.width / 2 - outer.left - outer.width / 2;
		frame.scrollTop += inner.top + inner.height / 2 - outer.top - outer.height / 2;
	}

	let asOf = '';
	function show(update) {
		for (const part of ['nav', 'state', 'counters', 'exits', 'transitions']) {
			if (part in update) replace(byId(part), update[part]);
		}
		if ('title' in update) document.title = update.title;
		if ('taken' in update) mark('taken', update.taken);
		if ('current' in update) { mark('current', [update.current]); reveal(); }
		asOf = update.asOf;
	}

	function link(text) {
		body.classList.toggle('stale', text !== '');
		if (byId('link').textContent !== text) byId('link').textContent = text;
	}
	function lost() {
		link('Not connected' + (asOf && '; this is how it was at ' + asOf) + '. Trying again.');
	}

	const silence = 40e3, pause = 3e3; // milliseconds; the server says something every 15 s
	let source, watchdog, again;
	function heard() {
		clearTimeout(watchdog);
		watchdog = setTimeout(() => { lost(); connect(); }, silence);
	}
	function stop() {
		source?.close();
		clearTimeout(watchdog);
		clearTimeout(again);
	}
	function connect() {
		stop();
		source = new EventSource('?' + new URLSearchParams({transport: body.dataset.transport, events: ''}));
		source.onmessage = event => { show(JSON.parse(event.data)); link(''); heard(); };
		source.addEventListener('beat', heard);
		source.addEventListener('gone', () => { stop(); link('This transport is no longer on the page.'); });
		source.onerror = event => {
			lost();
			if (event.target.readyState === EventSource.CLOSED) { // it does not try by itself
				clearTimeout(again);
				again = setTimeout(connect, pause);
			}
		};
		heard();
	}
	addEventListener('pagehide', stop);
	addEventListener('pageshow', connect); // after the first load as well
	reveal();
}
