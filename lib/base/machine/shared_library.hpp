#pragma once

namespace trainctl {

/// Returns a symbol of a library that is loaded on first use and stays loaded. The library is
/// searched for in the program's folder, in ../lib relative to that folder, and then by the dynamic
/// loader. Returns nullptr and sets `cause` if it cannot be loaded.
void* find_in_module(const char* library, const char* symbol, const char*& cause);

}  // namespace trainctl
