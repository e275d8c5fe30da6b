#include "base/error.hpp"

#include "base/bounded_text.hpp"

namespace trainctl {

Error::Error(ErrorKind kind, std::string message, std::source_location where)
    : kind_(kind), message_(bounded(message)), text_(message_), where_(where) {}

void Error::add_frame(const std::string& frame) { text_ = with_prefix(bounded(frame), text_); }

}  // namespace trainctl
