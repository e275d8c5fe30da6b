// A shared library, but no plug-in.
extern "C" int trainctl_test_nothing();
extern "C" int trainctl_test_nothing() { return 0; }
