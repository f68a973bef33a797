"""Tests that the browser that other tests drive can run a script and take a picture here."""

import pytest
from playwright.sync_api import sync_playwright


@pytest.mark.browser
def test_chromium_runs_modules_and_draws(chromium: str) -> None:
    page_source = """
        <canvas id="c" width="7" height="3"></canvas>
        <script type="module">
          const pen = document.getElementById('c').getContext('2d');
          pen.fillStyle = 'rgb(10, 20, 30)';
          pen.fillRect(0, 0, 7, 3);
          window.pixel = [...pen.getImageData(6, 2, 1, 1).data];
        </script>"""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 320, "height": 200})
        page.set_content(page_source)
        page.wait_for_function("window.pixel !== undefined")
        pixel = page.evaluate("window.pixel")
        picture = page.screenshot()
        browser.close()
    assert pixel == [10, 20, 30, 255]
    assert picture.startswith(b"\x89PNG")
