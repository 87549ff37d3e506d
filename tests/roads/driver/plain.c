/* The driver as it is; forwards all. */
const char odd_driver[] = "plain";
