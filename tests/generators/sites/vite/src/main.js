import './main.css';
import picture from './picture.svg';

document.querySelector('#app').innerHTML = `<img src="${picture}" alt="">`;
import('./later.js').then(({ show }) => show());
