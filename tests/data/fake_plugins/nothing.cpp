// A shared library that is not a plug-in.
extern "C" int trainctl_test_nothing();
extern "C" int trainctl_test_nothing() { return 0; }
