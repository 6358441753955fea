"""Replays, in a real browser: an example is played forwards and backwards, and files are dropped on the page."""

from __future__ import annotations

from dashboard_window import Window
from playwright.async_api import FilePayload, expect

from support.dashboard_requests import EXAMPLES

PARTS = EXAMPLES / "24-three-parts"


async def test_an_example_is_played_by_buttons_keys_and_scrubber(window: Window):
    page = window.page
    await page.get_by_role("link", name="Replay").click()
    parts = page.get_by_label("The three parts of KEP-5925").get_by_role("link")
    await expect(parts).to_have_text(["Joint packing", "Reservation", "Rebuilding"])
    await parts.nth(2).click()
    words, node = page.locator(".step-words"), page.locator("[data-node=rack-3]")
    await expect(words).to_contain_text("the cluster at the beginning")
    # The button has the focus, and space presses it; it plays to the end.
    play = page.get_by_role("button", name="Play", exact=True)
    await expect(play).to_be_focused()
    await page.get_by_label("Speed").select_option("8")
    await page.get_by_label("Steps").get_by_role("button").nth(8).click()
    await play.focus()
    await page.keyboard.press("Space")
    await expect(page.get_by_role("button", name="Pause")).to_be_visible()
    await expect(words).to_contain_text("racks/reports goes to rack-1")
    await expect(play).to_be_visible()
    # By the list of steps: where the pod goes and why there; the map shows what is kept back for it.
    await page.get_by_label("Steps").get_by_role("button", name="schedule racks/db-0").click()
    await expect(words).to_contain_text("racks/db-0 goes to rack-3")
    await expect(words).to_contain_text("racks/data-db-0 is rebuilt here, and takes 80Gi of 100Gi")
    await expect(node).to_contain_text("goes here")
    await expect(node).to_contain_text("kept back")
    await page.keyboard.press("ArrowRight")
    await expect(node).not_to_contain_text("goes here")
    await page.keyboard.press("ArrowLeft")
    # Details are of the replay's time, and do not lead to pages of the cluster that is shown.
    await node.locator(".cell-name").click()
    details = page.get_by_label("Details", exact=True)
    await expect(details).to_contain_text("racks/db-0")
    await expect(details).to_contain_text("(0 s)")
    await expect(details.get_by_role("link")).to_have_count(0)
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Play", exact=True).focus()
    # Backwards it is as it was.
    await page.keyboard.press("ArrowLeft")
    await expect(words).to_contain_text("The driver frees the volume")
    await expect(node).not_to_contain_text("kept back")
    await page.keyboard.press("End")
    await expect(words).to_contain_text("racks/reports goes to rack-1")
    scrubber = page.get_by_role("slider", name="Step")
    await expect(scrubber).to_have_attribute("aria-valuetext", "10 of 10: schedule racks/reports")
    await scrubber.fill("0")
    await expect(page.locator("[data-node=rack-1]")).to_contain_text("data-db-0")
    await expect(words).to_contain_text("the cluster at the beginning")
    await page.get_by_role("button", name="Play something else").click()
    await expect(parts).to_have_count(3)


async def test_files_are_chosen_and_played_and_what_is_wrong_is_told(window: Window):
    page = window.page
    window.expected.append("422")
    await window.go("replay")
    chooser = page.get_by_label("Or choose them")
    await chooser.set_input_files([PARTS / "reservation.yaml"])
    await page.get_by_role("button", name="Play these files").click()
    await expect(page.get_by_role("alert")).to_contain_text("there is nothing to play in these files")
    # Of two files with one name the later counts.
    given = {"cluster.yaml": PARTS / "reservation.yaml", "reservation.yaml": PARTS / "steps" / "reservation.yaml"}
    await chooser.set_input_files(
        [FilePayload(name=name, mimeType="text/yaml", buffer=path.read_bytes()) for name, path in given.items()]
    )
    await expect(page.get_by_label("Files to play").get_by_role("listitem")).to_have_count(2)
    await page.get_by_role("button", name="Play these files").click()
    words = page.locator(".step-words")
    await expect(words).to_contain_text("the cluster at the beginning")
    await page.keyboard.press("ArrowRight")
    await expect(words).to_contain_text("press/job-0 goes to press-2")
    # Dropped, they are played at once, instead of what is shown.
    texts = {name: path.read_text().replace("job-0", "first") for name, path in given.items()}
    transfer = await page.evaluate_handle(
        """texts => {
          const transfer = new DataTransfer();
          for (const [name, text] of Object.entries(texts)) transfer.items.add(new File([text], name));
          return transfer;
        }""",
        texts,
    )
    await page.locator("main").dispatch_event("drop", {"dataTransfer": transfer})
    await expect(words).to_contain_text("the cluster at the beginning")
    await page.keyboard.press("ArrowRight")
    await expect(words).to_contain_text("press/first goes to press-2")
