#pragma once

#include <string>
#include <string_view>

namespace trainctl::report {

/// The operator that took most time of its own, from the text of profile/operators.csv:
/// "aten::addmm takes 31 % of the operators' time". On a GPU its kernels count. Empty where the
/// text has no rows that it can read.
std::string top_operator(std::string_view operators_csv);

}  // namespace trainctl::report
