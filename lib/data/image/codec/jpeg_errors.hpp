#pragma once

#include "base/error.hpp"

#include <jpeglib.h>

#include <array>
#include <csetjmp>
#include <cstdio>  // jpeglib.h needs it first
#include <utility>

namespace trainctl::data {

/// How calls of libjpeg fail: they leave by a jump, with a message. Warnings are failures too: the
/// data is damaged. What libjpeg calls back knows the first member.
struct JpegErrors {
  jpeg_error_mgr base{};
  std::jmp_buf jump{};
  std::array<char, JMSG_LENGTH_MAX> message{};

  /// For the `err` of a libjpeg object, which must not outlive this.
  jpeg_error_mgr* handlers() {
    jpeg_std_error(&base);
    base.error_exit = [](j_common_ptr info) { leave(info); };
    base.emit_message = [](j_common_ptr info, int level) {
      if (level < 0) leave(info);
    };
    base.output_message = [](j_common_ptr) {};
    return &base;
  }

  /// Whether calls of libjpeg came to their end. They may leave by a jump: `body` must own nothing.
  template <class Body>
  [[nodiscard]] bool done(const Body& body) {
    if (setjmp(jump) != 0) return false;
    body();
    return true;
  }

  static JpegErrors& of(j_common_ptr info) { return *reinterpret_cast<JpegErrors*>(info->err); }

  /// Leaves with a message of ours.
  template <class... Values>
  [[noreturn]] void leave_with(fmt::format_string<Values...> text, Values&&... values) {
    *fmt::format_to_n(message.data(), message.size() - 1, text, std::forward<Values>(values)...)
         .out = '\0';
    std::longjmp(jump, 1);
  }

 private:
  [[noreturn]] static void leave(j_common_ptr info) {
    JpegErrors& errors = of(info);
    errors.base.format_message(info, errors.message.data());
    std::longjmp(errors.jump, 1);
  }
};

}  // namespace trainctl::data
