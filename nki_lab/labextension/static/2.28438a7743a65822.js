"use strict";(self.rspackChunknki_lab=self.rspackChunknki_lab||[]).push([[2],{32(o,r,n){var e=n(33),i=n.n(e),a=n(34),t=(n.n(a))()(i());t.push([o.id,`/* Only in editors: the views of a run have classes of ours too.
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

/* Cards that explain a name. They hang on the page, outside the editor. */
.nki-card.cm-tooltip {
  z-index: 1000;
  border: 1px solid var(--jp-border-color1);
  background: var(--jp-layout-color1);
}

.nki-card {
  box-sizing: border-box;
  max-width: min(44rem, 90vw);
  max-height: min(24rem, 45vh);
  overflow: auto;
  padding: 8px 12px;
  color: var(--jp-ui-font-color1);
  font: var(--jp-ui-font-size1) / 1.4 var(--jp-ui-font-family);
}

.nki-card code {
  color: inherit;
  background: none;
  font: var(--jp-code-font-size) / 1.4 var(--jp-code-font-family);
}

.nki-card .nki-card-title {
  color: var(--nki-isa-color);
  font-weight: bold;
}

.nki-card p,
.nki-card h4,
.nki-card ul,
.nki-card table,
.nki-card footer {
  margin: 4px 0;
}

.nki-card h4,
.nki-card summary {
  color: var(--jp-ui-font-color2);
  font-size: var(--jp-ui-font-size0);
  font-weight: bold;
}

.nki-card ul {
  padding-left: 1.2em;
}

.nki-card th {
  padding: 0 12px 0 0;
  font: var(--jp-code-font-size) / 1.4 var(--jp-code-font-family);
  text-align: left;
  vertical-align: top;
  white-space: nowrap;
}

.nki-card td {
  padding: 0;
  vertical-align: top;
}

.nki-card footer {
  color: var(--jp-ui-font-color2);
}
`,""]),n.d(r,{},{A:t})},35(o,r,n){var e=n(33),i=n.n(e),a=n(34),t=(n.n(a))()(i());t.push([o.id,`/* Messages of marks, the panel at the side, and the item of the status bar. */

body {
  --nki-error-color: var(--jp-error-color0);
  --nki-warning-color: #8a5a00;
  --nki-info-color: #0b6088;
}

body[data-jp-theme-light='false'] {
  --nki-error-color: #ff8a80;
  --nki-warning-color: #ffc266;
  --nki-info-color: #7cc8f0;
}

.cm-tooltip .nki-message,
.cm-panel-lint .nki-message {
  font-family: var(--jp-code-font-family);
  font-size: var(--jp-code-font-size);
  line-height: 1.4;
  max-width: 80ch;
  white-space: pre-wrap;
  overflow-wrap: anywhere;
  color: var(--jp-ui-font-color1);
}

.nki-message-head {
  font-weight: 600;
}

.nki-message-note {
  color: var(--jp-ui-font-color2);
}

.cm-editor .cm-tooltip-lint,
.cm-editor .cm-panel-lint ul {
  background: var(--jp-layout-color1);
  color: var(--jp-ui-font-color1);
}

.cm-editor .cm-tooltip:has(.cm-tooltip-lint) {
  background: var(--jp-layout-color1);
  border: 1px solid var(--jp-border-color1);
}

.cm-editor .cm-diagnostic .cm-diagnosticAction,
.nki-button {
  font: inherit;
  color: var(--jp-ui-font-color1);
  background: var(--jp-layout-color2);
  border: 1px solid var(--jp-border-color1);
  border-radius: 2px;
  padding: 2px 8px;
  cursor: pointer;
}

.cm-editor .cm-diagnostic .cm-diagnosticAction {
  display: inline-block;
  margin: 4px 4px 2px 0;
  font-size: var(--jp-ui-font-size1);
}

.nki-button:hover:enabled,
.cm-editor .cm-diagnostic .cm-diagnosticAction:hover {
  background: var(--jp-layout-color3);
}

.nki-button:focus-visible,
.nki-select:focus-visible {
  outline: 2px solid var(--jp-brand-color1);
  outline-offset: -2px;
}

.nki-button:disabled {
  color: var(--jp-ui-font-color3);
  cursor: default;
}

.nki-side {
  overflow: auto;
  padding: 8px;
  color: var(--jp-ui-font-color1);
  background: var(--jp-layout-color1);
  font-size: var(--jp-ui-font-size1);
  min-width: 220px;
}

.nki-side p {
  margin: 2px 0;
}

.nki-side-title {
  margin: 0 0 8px;
  font-size: var(--jp-ui-font-size2);
  font-weight: 600;
  overflow: hidden;
  text-overflow: ellipsis;
  white-space: nowrap;
}

.nki-side-heading {
  margin: 14px 0 4px;
  font-size: var(--jp-ui-font-size1);
  font-weight: 600;
}

.nki-hint {
  color: var(--jp-ui-font-color2);
  overflow-wrap: anywhere;
}

.nki-side-facts {
  display: grid;
  grid-template-columns: auto 1fr;
  gap: 4px 10px;
  margin: 0;
  align-items: baseline;
}

.nki-side-facts dt {
  color: var(--jp-ui-font-color2);
}

.nki-side-facts dd {
  margin: 0;
}

.nki-select {
  font: inherit;
  color: var(--jp-ui-font-color1);
  background: var(--jp-layout-color1);
  border: 1px solid var(--jp-border-color1);
  border-radius: 2px;
  padding: 1px 4px;
}

.nki-entries {
  list-style: none;
  margin: 0;
  padding: 0;
}

.nki-side .nki-run,
.nki-side .nki-mark {
  display: grid;
  grid-template-columns: 1fr auto;
  gap: 0 8px;
  width: 100%;
  margin: 0 0 2px;
  padding: 4px 6px;
  border-color: transparent;
  background: none;
  text-align: left;
}

.nki-side .nki-run:hover,
.nki-side .nki-mark:hover {
  background: var(--jp-layout-color2);
}

.nki-side .nki-run[aria-pressed='true'] {
  background: var(--jp-layout-color2);
  border-color: var(--jp-border-color1);
}

.nki-run-name,
.nki-run-time {
  font-weight: 600;
  overflow-wrap: anywhere;
}

.nki-run-time {
  font-variant-numeric: tabular-nums;
  white-space: nowrap;
}

.nki-run-where,
.nki-run-bound,
.nki-mark-where {
  color: var(--jp-ui-font-color2);
}

.nki-run-bound {
  text-align: right;
}

.nki-run-more {
  margin: 2px 0 8px;
  padding: 2px 6px;
  border-left: 2px solid var(--jp-border-color1);
}

.nki-buttons {
  display: flex;
  flex-wrap: wrap;
  gap: 4px;
  margin-top: 4px;
}

.nki-gauge-row {
  display: grid;
  grid-template-columns: 4ch 1fr;
  gap: 2px 8px;
  align-items: center;
  margin-bottom: 6px;
}

.nki-gauge-text {
  grid-column: 2;
  color: var(--jp-ui-font-color2);
  font-variant-numeric: tabular-nums;
}

.nki-gauge {
  height: 10px;
  border: 1px solid var(--jp-border-color1);
  border-radius: 2px;
  background: var(--jp-layout-color2);
  overflow: hidden;
}

.nki-gauge-bar {
  height: 100%;
  min-width: 1px;
  background: var(--nki-language-color);
}

.nki-gauge-bar.nki-of-psum {
  background: var(--nki-option-color);
}

.nki-over {
  border-color: var(--nki-error-color);
}

.nki-mark-severity {
  font-weight: 600;
}

.nki-side .nki-error {
  color: var(--nki-error-color);
}

.nki-side .nki-warning {
  color: var(--nki-warning-color);
}

.nki-side .nki-info {
  color: var(--nki-info-color);
}

.nki-mark-message {
  grid-column: 1 / -1;
  overflow-wrap: anywhere;
}

.nki-status-item .nki-status {
  height: 100%;
  padding: 0 6px;
  border: none;
  background: none;
  color: inherit;
  font-size: var(--jp-ui-font-size1);
}
`,""]),n.d(r,{},{A:t})},37(o,r,n){var e=n(33),i=n.n(e),a=n(34),t=(n.n(a))()(i());t.push([o.id,`.nki-page {
  display: flex;
  background: var(--jp-layout-color1);
  color: var(--jp-ui-font-color1);
}

.nki-page-frame {
  flex: 1;
  border: 0;
}

.nki-page-wait,
.nki-page-problem {
  margin: 24px;
  max-width: 72ch;
  font-size: var(--jp-content-font-size1);
  overflow-wrap: anywhere;
}

.nki-page-wait {
  color: var(--jp-ui-font-color2);
}

.nki-page-problem {
  align-self: flex-start;
  border-left: 4px solid var(--jp-error-color1);
  padding-left: 12px;
}

.nki-page-problem p + p {
  color: var(--jp-ui-font-color2);
}
`,""]),n.d(r,{},{A:t})},36(o,r,n){var e=n(33),i=n.n(e),a=n(34),t=(n.n(a))()(i());t.push([o.id,`/* How far the work of a cell is: src/progress_bar.ts. */

.jp-Cell > .nki-progress {
  display: flex;
  align-items: center;
  gap: 8px;
  /* In line with the text of the cell, right of its prompt. */
  padding: 4px 8px 4px calc(var(--jp-cell-prompt-width, 64px) + 8px);
  color: var(--jp-ui-font-color1);
  font-size: var(--jp-ui-font-size1);
}

.jp-Cell > .nki-progress progress {
  width: 160px;
  accent-color: var(--jp-brand-color1);
}

.jp-Cell > .nki-progress span {
  font-variant-numeric: tabular-nums;
}

.jp-Cell > .nki-progress button {
  border: 1px solid var(--jp-border-color1);
  border-radius: 2px;
  background: var(--jp-layout-color1);
  color: var(--jp-ui-font-color1);
  font-size: var(--jp-ui-font-size1);
  cursor: pointer;
}

.jp-Cell > .nki-progress button:disabled {
  color: var(--jp-ui-font-color2);
  cursor: default;
}
`,""]),n.d(r,{},{A:t})},34(o){o.exports=function(o){var r=[];return r.toString=function(){return this.map(function(r){var n="",e=void 0!==r[5];return r[4]&&(n+="@supports (".concat(r[4],") {")),r[2]&&(n+="@media ".concat(r[2]," {")),e&&(n+="@layer".concat(r[5].length>0?" ".concat(r[5]):""," {")),n+=o(r),e&&(n+="}"),r[2]&&(n+="}"),r[4]&&(n+="}"),n}).join("")},r.i=function(o,n,e,i,a){"string"==typeof o&&(o=[[null,o,void 0]]);var t={};if(e)for(var l=0;l<this.length;l++){var c=this[l][0];null!=c&&(t[c]=!0)}for(var s=0;s<o.length;s++){var p=[].concat(o[s]);e&&t[p[0]]||(void 0!==a&&(void 0===p[5]||(p[1]="@layer".concat(p[5].length>0?" ".concat(p[5]):""," {").concat(p[1],"}")),p[5]=a),n&&(p[2]&&(p[1]="@media ".concat(p[2]," {").concat(p[1],"}")),p[2]=n),i&&(p[4]?(p[1]="@supports (".concat(p[4],") {").concat(p[1],"}"),p[4]=i):p[4]="".concat(i)),r.push(p))}},r}},33(o){o.exports=function(o){return o[1]}},26(o){var r=[];function n(o){for(var n=-1,e=0;e<r.length;e++)if(r[e].identifier===o){n=e;break}return n}function e(o,e){for(var i={},a=[],t=0;t<o.length;t++){var l=o[t],c=e.base?l[0]+e.base:l[0],s=i[c]||0,p="".concat(c," ").concat(s);i[c]=s+1;var d=n(p),u={css:l[1],media:l[2],sourceMap:l[3],supports:l[4],layer:l[5]};if(-1!==d)r[d].references++,r[d].updater(u);else{var f=function(o,r){var n=r.domAPI(r);return n.update(o),function(r){r?(r.css!==o.css||r.media!==o.media||r.sourceMap!==o.sourceMap||r.supports!==o.supports||r.layer!==o.layer)&&n.update(o=r):n.remove()}}(u,e);e.byIndex=t,r.splice(t,0,{identifier:p,updater:f,references:1})}a.push(p)}return a}o.exports=function(o,i){var a=e(o=o||[],i=i||{});return function(o){o=o||[];for(var t=0;t<a.length;t++){var l=n(a[t]);r[l].references--}for(var c=e(o,i),s=0;s<a.length;s++){var p=n(a[s]);0===r[p].references&&(r[p].updater(),r.splice(p,1))}a=c}}},28(o){var r={};o.exports=function(o,n){var e=function(o){if(void 0===r[o]){var n=document.querySelector(o);if(window.HTMLIFrameElement&&n instanceof window.HTMLIFrameElement)try{n=n.contentDocument.head}catch(o){n=null}r[o]=n}return r[o]}(o);if(!e)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");e.appendChild(n)}},30(o){o.exports=function(o){var r=document.createElement("style");return o.setAttributes(r,o.attributes),o.insert(r,o.options),r}},29(o,r,n){o.exports=function(o){var r=n.nc;r&&o.setAttribute("nonce",r)}},27(o){o.exports=function(o){if("u"<typeof document)return{update:function(){},remove:function(){}};var r=o.insertStyleElement(o);return{update:function(n){var e,i,a;e="",n.supports&&(e+="@supports (".concat(n.supports,") {")),n.media&&(e+="@media ".concat(n.media," {")),(i=void 0!==n.layer)&&(e+="@layer".concat(n.layer.length>0?" ".concat(n.layer):""," {")),e+=n.css,i&&(e+="}"),n.media&&(e+="}"),n.supports&&(e+="}"),(a=n.sourceMap)&&"u">typeof btoa&&(e+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(a))))," */")),o.styleTagTransform(e,r,o.options)},remove:function(){var o;null===(o=r).parentNode||o.parentNode.removeChild(o)}}}},31(o){o.exports=function(o,r){if(r.styleSheet)r.styleSheet.cssText=o;else{for(;r.firstChild;)r.removeChild(r.firstChild);r.appendChild(document.createTextNode(o))}}},25(o,r,n){var e=n(26),i=n.n(e),a=n(27),t=n.n(a),l=n(28),c=n.n(l),s=n(29),p=n.n(s),d=n(30),u=n.n(d),f=n(31),g=n.n(f),m=n(32),k={};k.styleTagTransform=g(),k.setAttributes=p(),k.insert=c().bind(null,"head"),k.domAPI=t(),k.insertStyleElement=u(),i()(m.A,k),m.A&&m.A.locals&&m.A.locals;var v=n(35),h={};h.styleTagTransform=g(),h.setAttributes=p(),h.insert=c().bind(null,"head"),h.domAPI=t(),h.insertStyleElement=u(),i()(v.A,h),v.A&&v.A.locals&&v.A.locals;var b=n(36),x={};x.styleTagTransform=g(),x.setAttributes=p(),x.insert=c().bind(null,"head"),x.domAPI=t(),x.insertStyleElement=u(),i()(b.A,x),b.A&&b.A.locals&&b.A.locals;var j=n(37),y={};y.styleTagTransform=g(),y.setAttributes=p(),y.insert=c().bind(null,"head"),y.domAPI=t(),y.insertStyleElement=u(),i()(j.A,y),j.A&&j.A.locals&&j.A.locals}}]);