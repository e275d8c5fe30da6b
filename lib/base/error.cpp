#include "base/error.hpp"

namespace trainctl {

Error::Error(ErrorKind kind, std::string message, std::source_location where)
    : kind_(kind), message_(std::move(message)), text_(message_), where_(where) {}

void Error::add_frame(const std::string& frame) { text_ = frame + ": " + text_; }

}  // namespace trainctl
