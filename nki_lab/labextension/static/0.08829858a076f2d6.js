"use strict";(self.rspackChunknki_lab=self.rspackChunknki_lab||[]).push([[0],{18(e,o,r){var n=r(19),t=r.n(n),a=r(20),i=(r.n(a))()(t());i.push([e.id,`/* Only in editors: the views of a run have classes of ours too.
   Python's own spans lie inside ours and have colours: \`*\` reaches them. */

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

.cm-editor .nki-magic-line {
  background: var(--jp-layout-color2);
  box-shadow: inset 3px 0 var(--nki-isa-color);
}

.cm-editor .nki-magic,
.cm-editor .nki-magic * {
  color: var(--nki-isa-color);
  font-weight: bold;
}

.cm-editor .nki-option,
.cm-editor .nki-option * {
  color: var(--nki-option-color);
}

.cm-editor .nki-value,
.cm-editor .nki-value * {
  color: var(--nki-language-color);
}

.cm-editor .nki-isa,
.cm-editor .nki-isa * {
  color: var(--nki-isa-color);
}

.cm-editor .nki-language,
.cm-editor .nki-language *,
.cm-editor .nki-api,
.cm-editor .nki-api * {
  color: var(--nki-language-color);
}

.nki-progress {
  display: flex;
  align-items: center;
  gap: 8px;
  /* In line with the text of the cell, right of its prompt. */
  padding: 4px 8px 4px calc(var(--jp-cell-prompt-width, 64px) + 8px);
  color: var(--jp-ui-font-color1);
  font-size: var(--jp-ui-font-size1);
}

.nki-progress progress {
  width: 160px;
  accent-color: var(--jp-brand-color1);
}

.nki-progress span {
  font-variant-numeric: tabular-nums;
}

.nki-progress button {
  border: 1px solid var(--jp-border-color1);
  border-radius: 2px;
  background: var(--jp-layout-color1);
  color: var(--jp-ui-font-color1);
  font-size: var(--jp-ui-font-size1);
  cursor: pointer;
}

.nki-progress button:disabled {
  color: var(--jp-ui-font-color2);
  cursor: default;
}
`,""]),r.d(o,{},{A:i})},20(e){e.exports=function(e){var o=[];return o.toString=function(){return this.map(function(o){var r="",n=void 0!==o[5];return o[4]&&(r+="@supports (".concat(o[4],") {")),o[2]&&(r+="@media ".concat(o[2]," {")),n&&(r+="@layer".concat(o[5].length>0?" ".concat(o[5]):""," {")),r+=e(o),n&&(r+="}"),o[2]&&(r+="}"),o[4]&&(r+="}"),r}).join("")},o.i=function(e,r,n,t,a){"string"==typeof e&&(e=[[null,e,void 0]]);var i={};if(n)for(var c=0;c<this.length;c++){var s=this[c][0];null!=s&&(i[s]=!0)}for(var l=0;l<e.length;l++){var u=[].concat(e[l]);n&&i[u[0]]||(void 0!==a&&(void 0===u[5]||(u[1]="@layer".concat(u[5].length>0?" ".concat(u[5]):""," {").concat(u[1],"}")),u[5]=a),r&&(u[2]&&(u[1]="@media ".concat(u[2]," {").concat(u[1],"}")),u[2]=r),t&&(u[4]?(u[1]="@supports (".concat(u[4],") {").concat(u[1],"}"),u[4]=t):u[4]="".concat(t)),o.push(u))}},o}},19(e){e.exports=function(e){return e[1]}},12(e){var o=[];function r(e){for(var r=-1,n=0;n<o.length;n++)if(o[n].identifier===e){r=n;break}return r}function n(e,n){for(var t={},a=[],i=0;i<e.length;i++){var c=e[i],s=n.base?c[0]+n.base:c[0],l=t[s]||0,u="".concat(s," ").concat(l);t[s]=l+1;var p=r(u),d={css:c[1],media:c[2],sourceMap:c[3],supports:c[4],layer:c[5]};if(-1!==p)o[p].references++,o[p].updater(d);else{var f=function(e,o){var r=o.domAPI(o);return r.update(e),function(o){o?(o.css!==e.css||o.media!==e.media||o.sourceMap!==e.sourceMap||o.supports!==e.supports||o.layer!==e.layer)&&r.update(e=o):r.remove()}}(d,n);n.byIndex=i,o.splice(i,0,{identifier:u,updater:f,references:1})}a.push(u)}return a}e.exports=function(e,t){var a=n(e=e||[],t=t||{});return function(e){e=e||[];for(var i=0;i<a.length;i++){var c=r(a[i]);o[c].references--}for(var s=n(e,t),l=0;l<a.length;l++){var u=r(a[l]);0===o[u].references&&(o[u].updater(),o.splice(u,1))}a=s}}},14(e){var o={};e.exports=function(e,r){var n=function(e){if(void 0===o[e]){var r=document.querySelector(e);if(window.HTMLIFrameElement&&r instanceof window.HTMLIFrameElement)try{r=r.contentDocument.head}catch(e){r=null}o[e]=r}return o[e]}(e);if(!n)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");n.appendChild(r)}},16(e){e.exports=function(e){var o=document.createElement("style");return e.setAttributes(o,e.attributes),e.insert(o,e.options),o}},15(e,o,r){e.exports=function(e){var o=r.nc;o&&e.setAttribute("nonce",o)}},13(e){e.exports=function(e){if("u"<typeof document)return{update:function(){},remove:function(){}};var o=e.insertStyleElement(e);return{update:function(r){var n,t,a;n="",r.supports&&(n+="@supports (".concat(r.supports,") {")),r.media&&(n+="@media ".concat(r.media," {")),(t=void 0!==r.layer)&&(n+="@layer".concat(r.layer.length>0?" ".concat(r.layer):""," {")),n+=r.css,t&&(n+="}"),r.media&&(n+="}"),r.supports&&(n+="}"),(a=r.sourceMap)&&"u">typeof btoa&&(n+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(a))))," */")),e.styleTagTransform(n,o,e.options)},remove:function(){var e;null===(e=o).parentNode||e.parentNode.removeChild(e)}}}},17(e){e.exports=function(e,o){if(o.styleSheet)o.styleSheet.cssText=e;else{for(;o.firstChild;)o.removeChild(o.firstChild);o.appendChild(document.createTextNode(e))}}},11(e,o,r){var n=r(12),t=r.n(n),a=r(13),i=r.n(a),c=r(14),s=r.n(c),l=r(15),u=r.n(l),p=r(16),d=r.n(p),f=r(17),v=r.n(f),m=r(18),h={};h.styleTagTransform=v(),h.setAttributes=u(),h.insert=s().bind(null,"head"),h.domAPI=i(),h.insertStyleElement=d(),t()(m.A,h),m.A&&m.A.locals&&m.A.locals}}]);