#pragma once

#include <termios.h>

#include <cstdint>
#include <string>

namespace trainctl::app {

/// The alternate screen of the terminal on stdout, without a cursor, and keys without Enter. What
/// was there before comes back with the end of its life, also where a signal ends the process, and
/// while the job is stopped by Ctrl-Z.
class FullScreen {
 public:
  FullScreen();
  ~FullScreen();
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;

  /// Draws over what was there, without a flicker; lines that are longer than the screen are cut.
  void draw(const std::string& text) const;
  [[nodiscard]] int width() const;
  [[nodiscard]] int height() const;

  enum class Wish { none, redraw, end };
  /// Until the time has passed, the size has changed (redraw), or q, Ctrl-C or a stop signal came.
  [[nodiscard]] Wish wait(double seconds) const;

 private:
  void enter() const;
  void leave() const;
  void suspend() const;

  termios before_{};
  bool reads_keys_ = false;
};

}  // namespace trainctl::app
