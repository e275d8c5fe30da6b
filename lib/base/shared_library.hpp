#pragma once

namespace trainctl {

/// A symbol of a library that is loaded when it is first needed, and stays: from the program's
/// folder, from ../lib beside that, or from where the dynamic loader looks. nullptr where it cannot
/// be had; then `cause` says why.
void* find_in_module(const char* library, const char* symbol, const char*& cause);

}  // namespace trainctl
