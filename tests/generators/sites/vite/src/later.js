import './later.css';

export function show() {
  document.title = 'later';
}
