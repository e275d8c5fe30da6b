#include "report/text/progress_bar.hpp"

#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::report;

namespace {

struct Screen {
  std::string text;
  Write write() {
    return [this](std::string_view more) { text += more; };
  }
  std::string take() { return std::exchange(text, {}); }
};

events::Progress at(std::int64_t step, std::optional<double> loss = {}) {
  return {.epoch = 2, .step_in_epoch = step, .steps_in_epoch = 500, .loss = loss};
}

constexpr Style kUnicode{.glyphs = Glyphs::unicode, .width = 100};

}  // namespace

TEST_CASE("ProgressBar: looks like tqdm") {
  Screen screen;
  ProgressBar bar({ProgressMode::tty, kUnicode, 90}, screen.write());
  bar.update(at(0));
  bar.tick(100);
  bar.update(at(210, 0.193));
  bar.tick(131);
  CHECK(screen.text ==
        "\repoch 3/90  42%|████▏     | 210/500 [00:31<00:42, 6.8 it/s, loss=0.193]\x1b[K");
}

TEST_CASE("bar_text: ASCII shows tenths of a cell as digits, like tqdm") {
  CHECK(bar_text(0.42, 10, Glyphs::ascii) == "####2     ");
  CHECK(bar_text(0.42, 10, Glyphs::unicode) == "████▏     ");
  CHECK(bar_text(0, 10, Glyphs::ascii) == "          ");
  CHECK(bar_text(1, 4, Glyphs::unicode) == "████");
  CHECK(bar_text(7, 4, Glyphs::ascii) == "####");
}

TEST_CASE("ProgressBar: a run of less than half a second shows no bar") {
  Screen screen;
  ProgressBar bar({ProgressMode::tty, kUnicode, 1}, screen.write());
  bar.update(at(1));
  bar.tick(0);
  bar.update(at(500));
  bar.tick(0.4);
  bar.clear();
  CHECK(screen.text.empty());
}

TEST_CASE("ProgressBar: cleared before other lines and drawn again after them") {
  Screen screen;
  ProgressBar bar({ProgressMode::tty, kUnicode, 90}, screen.write());
  bar.update(at(0));
  bar.tick(0);
  bar.update(at(10));
  bar.tick(1);
  screen.take();
  bar.clear();
  CHECK(screen.take() == "\r\x1b[K");
  bar.clear();
  CHECK(screen.take().empty());
  bar.tick(1.1);
  CHECK_THAT(screen.take(), Contains("10/500"));
}

TEST_CASE("ProgressBar: a narrow terminal drops the bar first, then numbers") {
  for (const int width : {100, 64, 50, 30, 12}) {
    Screen screen;
    ProgressBar bar({ProgressMode::tty, {.glyphs = Glyphs::ascii, .width = width}, 90},
                    screen.write());
    bar.update(at(0));
    bar.tick(0);
    bar.update(at(210, 0.193));
    bar.tick(31);
    const std::string line = screen.text.substr(1, screen.text.size() - 4);
    CHECK(display_width(line) < width);
    CHECK(line.starts_with("epoch 3"));
  }
}

TEST_CASE("ProgressBar: plain mode writes a complete line every 10 seconds") {
  Screen screen;
  ProgressBar bar({ProgressMode::plain, {}, 90}, screen.write());
  for (int second = 0; second <= 25; ++second) {
    bar.update(at(second * 10));
    bar.tick(second);
  }
  CHECK(screen.text ==
        "epoch 3/90  20% 100/500 [00:10<00:40, 10.0 it/s]\nepoch 3/90  40% 200/500 [00:20<00:30, "
        "10.0 it/s]\n");
}

TEST_CASE("ProgressBar: mode none shows nothing, and auto depends on the output") {
  Screen screen;
  ProgressBar bar({ProgressMode::none, {}, 90}, screen.write());
  bar.update(at(5));
  bar.tick(0);
  bar.tick(60);
  CHECK(screen.text.empty());
  CHECK(resolve(ProgressMode::automatic, Device::terminal) == ProgressMode::tty);
  CHECK(resolve(ProgressMode::automatic, Device::file) == ProgressMode::plain);
  CHECK(resolve(ProgressMode::none, Device::terminal) == ProgressMode::none);
}

TEST_CASE("ProgressBar: a new epoch resets the time and keeps the rate") {
  Screen screen;
  ProgressBar bar({ProgressMode::tty, kUnicode, 90}, screen.write());
  bar.update(at(0));
  bar.tick(0);
  bar.update(at(100));
  bar.tick(10);
  auto validation = at(0);
  validation.phase = events::Phase::validate;
  bar.update(validation);
  bar.tick(10);
  validation.step_in_epoch = 450;
  bar.update(validation);
  bar.tick(10.5);
  CHECK_THAT(screen.take(), Contains("val 3/90  90%") && Contains("900 it/s"));
  auto next = at(0);
  next.epoch = 3;
  bar.update(next);
  screen.take();
  bar.tick(11);
  CHECK_THAT(screen.take(), Contains("epoch 4/90   0%|          | 0/500 [00:00<00:50, 10.0 it/s]"));
}

TEST_CASE("ProgressBar: no stale bar is drawn after the end of an epoch") {
  Screen screen;
  ProgressBar bar({ProgressMode::tty, kUnicode, 90}, screen.write());
  bar.update(at(0));
  bar.tick(0);
  bar.update(at(499));
  bar.tick(10);
  screen.take();
  bar.rest();
  CHECK(screen.take() == "\r\x1b[K");
  bar.tick(11);
  CHECK(screen.take().empty());
  bar.update(at(5));
  bar.tick(12);
  CHECK_THAT(screen.take(), Contains("5/500"));
}

TEST_CASE("ProgressBar: shows seconds per step for slow runs, and a non-finite loss") {
  Screen screen;
  ProgressBar bar({ProgressMode::tty, kUnicode, 90}, screen.write());
  bar.update(at(0));
  bar.tick(0);
  bar.update(at(2, 0.0 / 0.0));
  bar.tick(8);
  CHECK_THAT(screen.text, Contains("4.00 s/it, loss=nan"));
  CHECK(clock_text(3727) == "1:02:07");
  CHECK(clock_text(1e300) == "?");
}
