// A library that loads and is not NVIDIA's.
extern "C" int nvmlNothing();
extern "C" int nvmlNothing() { return 0; }
