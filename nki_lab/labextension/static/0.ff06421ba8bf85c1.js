"use strict";(self.rspackChunknki_lab=self.rspackChunknki_lab||[]).push([[0],{13(e,n,t){var o=t(14),r=t.n(o),a=t(15),i=(t.n(a))()(r());i.push([e.id,`/* Python's own spans lie inside ours and have colours: \`*\` reaches them. */

body {
  --nki-isa-color: #a23a00;
  --nki-language-color: #00658a;
  --nki-option-color: #6f3fa0;
}

body[data-jp-theme-light='false'] {
  --nki-isa-color: #ff9e64;
  --nki-language-color: #6cc7ee;
  --nki-option-color: #c9a5f0;
}

.nki-magic-line {
  background: var(--jp-layout-color2);
  box-shadow: inset 3px 0 var(--nki-isa-color);
}

.nki-magic,
.nki-magic * {
  color: var(--nki-isa-color);
  font-weight: bold;
}

.nki-option,
.nki-option * {
  color: var(--nki-option-color);
}

.nki-value,
.nki-value * {
  color: var(--nki-language-color);
}

.nki-isa,
.nki-isa * {
  color: var(--nki-isa-color);
}

.nki-language,
.nki-language *,
.nki-api,
.nki-api * {
  color: var(--nki-language-color);
}
`,""]),t.d(n,{},{A:i})},15(e){e.exports=function(e){var n=[];return n.toString=function(){return this.map(function(n){var t="",o=void 0!==n[5];return n[4]&&(t+="@supports (".concat(n[4],") {")),n[2]&&(t+="@media ".concat(n[2]," {")),o&&(t+="@layer".concat(n[5].length>0?" ".concat(n[5]):""," {")),t+=e(n),o&&(t+="}"),n[2]&&(t+="}"),n[4]&&(t+="}"),t}).join("")},n.i=function(e,t,o,r,a){"string"==typeof e&&(e=[[null,e,void 0]]);var i={};if(o)for(var c=0;c<this.length;c++){var s=this[c][0];null!=s&&(i[s]=!0)}for(var l=0;l<e.length;l++){var u=[].concat(e[l]);o&&i[u[0]]||(void 0!==a&&(void 0===u[5]||(u[1]="@layer".concat(u[5].length>0?" ".concat(u[5]):""," {").concat(u[1],"}")),u[5]=a),t&&(u[2]&&(u[1]="@media ".concat(u[2]," {").concat(u[1],"}")),u[2]=t),r&&(u[4]?(u[1]="@supports (".concat(u[4],") {").concat(u[1],"}"),u[4]=r):u[4]="".concat(r)),n.push(u))}},n}},14(e){e.exports=function(e){return e[1]}},7(e){var n=[];function t(e){for(var t=-1,o=0;o<n.length;o++)if(n[o].identifier===e){t=o;break}return t}function o(e,o){for(var r={},a=[],i=0;i<e.length;i++){var c=e[i],s=o.base?c[0]+o.base:c[0],l=r[s]||0,u="".concat(s," ").concat(l);r[s]=l+1;var p=t(u),d={css:c[1],media:c[2],sourceMap:c[3],supports:c[4],layer:c[5]};if(-1!==p)n[p].references++,n[p].updater(d);else{var f=function(e,n){var t=n.domAPI(n);return t.update(e),function(n){n?(n.css!==e.css||n.media!==e.media||n.sourceMap!==e.sourceMap||n.supports!==e.supports||n.layer!==e.layer)&&t.update(e=n):t.remove()}}(d,o);o.byIndex=i,n.splice(i,0,{identifier:u,updater:f,references:1})}a.push(u)}return a}e.exports=function(e,r){var a=o(e=e||[],r=r||{});return function(e){e=e||[];for(var i=0;i<a.length;i++){var c=t(a[i]);n[c].references--}for(var s=o(e,r),l=0;l<a.length;l++){var u=t(a[l]);0===n[u].references&&(n[u].updater(),n.splice(u,1))}a=s}}},9(e){var n={};e.exports=function(e,t){var o=function(e){if(void 0===n[e]){var t=document.querySelector(e);if(window.HTMLIFrameElement&&t instanceof window.HTMLIFrameElement)try{t=t.contentDocument.head}catch(e){t=null}n[e]=t}return n[e]}(e);if(!o)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");o.appendChild(t)}},11(e){e.exports=function(e){var n=document.createElement("style");return e.setAttributes(n,e.attributes),e.insert(n,e.options),n}},10(e,n,t){e.exports=function(e){var n=t.nc;n&&e.setAttribute("nonce",n)}},8(e){e.exports=function(e){if("u"<typeof document)return{update:function(){},remove:function(){}};var n=e.insertStyleElement(e);return{update:function(t){var o,r,a;o="",t.supports&&(o+="@supports (".concat(t.supports,") {")),t.media&&(o+="@media ".concat(t.media," {")),(r=void 0!==t.layer)&&(o+="@layer".concat(t.layer.length>0?" ".concat(t.layer):""," {")),o+=t.css,r&&(o+="}"),t.media&&(o+="}"),t.supports&&(o+="}"),(a=t.sourceMap)&&"u">typeof btoa&&(o+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(a))))," */")),e.styleTagTransform(o,n,e.options)},remove:function(){var e;null===(e=n).parentNode||e.parentNode.removeChild(e)}}}},12(e){e.exports=function(e,n){if(n.styleSheet)n.styleSheet.cssText=e;else{for(;n.firstChild;)n.removeChild(n.firstChild);n.appendChild(document.createTextNode(e))}}},6(e,n,t){var o=t(7),r=t.n(o),a=t(8),i=t.n(a),c=t(9),s=t.n(c),l=t(10),u=t.n(l),p=t(11),d=t.n(p),f=t(12),v=t.n(f),h=t(13),m={};m.styleTagTransform=v(),m.setAttributes=u(),m.insert=s().bind(null,"head"),m.domAPI=i(),m.insertStyleElement=d(),r()(h.A,m),h.A&&h.A.locals&&h.A.locals}}]);