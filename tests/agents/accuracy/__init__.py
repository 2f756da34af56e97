"""How often is a told status wrong? Measured on real agents, whose model says what is true."""
